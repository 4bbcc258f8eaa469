// Command judge checks histories of the chaos runs with Porcupine. It prints one line of JSON for each verdict.
//
//	go run . [-cap 2000] history.jsonl…
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// verdict is what Porcupine says about one key of a history under one model.
type verdict struct {
	File       string  `json:"file"`
	Key        string  `json:"key"`
	Model      string  `json:"model"`
	Operations int     `json:"operations"`
	Of         int     `json:"of"`
	Verdict    string  `json:"verdict"`
	Ms         float64 `json:"ms"`
	// The last operation of the shortest beginning that is rejected.
	Stuck string `json:"stuck,omitempty"`
}

const timeout = 30 * time.Second

func main() {
	limit := flag.Int("cap", 2000, "how many operations of a key are judged")
	flag.Parse()
	out := json.NewEncoder(os.Stdout)
	for _, file := range flag.Args() {
		verdicts, err := judgeFile(file, *limit)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
			os.Exit(1)
		}
		for _, found := range verdicts {
			if err := out.Encode(found); err != nil {
				panic(err)
			}
		}
	}
}

func judgeFile(file string, limit int) ([]verdict, error) {
	byKey, err := read(file)
	if err != nil {
		return nil, err
	}
	keys := make([]string, 0, len(byKey))
	for key := range byKey {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	var verdicts []verdict
	for _, key := range keys {
		for _, found := range judge(byKey[key], limit) {
			found.File, found.Key = file, key
			verdicts = append(verdicts, found)
		}
	}
	return verdicts, nil
}

// read returns the operations of each key, in the order of their calls. It leaves out requests that got no lock: they
// claim nothing that a model could check.
func read(file string) (map[string][]line, error) {
	source, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	byKey := map[string][]line{}
	for decoder := json.NewDecoder(bufio.NewReader(source)); decoder.More(); {
		var one line
		if err := decoder.Decode(&one); err != nil {
			return nil, err
		}
		if one.Op != "acquire" || one.Outcome == "ok" {
			byKey[one.Key] = append(byKey[one.Key], one)
		}
	}
	for _, lines := range byKey {
		byCall(lines)
	}
	return byKey, nil
}

func byCall(lines []line) {
	sort.SliceStable(lines, func(i, j int) bool { return lines[i].Call < lines[j].Call })
}

// judge checks the operations of one key: a lock without its tokens and with them, or a register.
func judge(lines []line, limit int) []verdict {
	if isRegister := lines[0].Op == "read" || lines[0].Op == "update"; isRegister {
		return []verdict{check("register", registerModel(), lines, limit)}
	}
	lines = late(lines)
	lock := check("lock", lockModel(false), lines, limit)
	if lock.Verdict != string(porcupine.Ok) {
		return []verdict{lock}
	}
	return []verdict{lock, check("tokens", lockModel(true), lines, limit)}
}

// late places each grant at the return of its acquire, if its holder trusted it then. This changes no verdict. A grant
// that begins earlier only keeps more out. Two trusted holders that exclude each other entered in the order of their
// grants, so their tokens are compared in the same order. Without it, Porcupine tries all earlier moments in vain.
func late(lines []line) []line {
	ends := map[string]float64{}
	for _, one := range lines {
		if one.Op == "end" {
			ends[one.ID] = one.Call
		}
	}
	placed := make([]line, len(lines))
	for i, one := range lines {
		if one.Op == "acquire" && ends[one.ID] > *one.Return {
			one.Call = *one.Return
		}
		placed[i] = one
	}
	byCall(placed)
	return placed
}

func check(name string, model porcupine.Model, lines []line, limit int) verdict {
	began := time.Now()
	count := min(limit, len(lines))
	result := porcupine.CheckOperationsTimeout(model, operationsOf(beginning(lines, count)), timeout)
	found := verdict{Model: name, Operations: count, Of: len(lines), Verdict: string(result)}
	if result == porcupine.Illegal {
		// What is rejected stays so with more operations.
		shortest := 1 + sort.Search(count-1, func(i int) bool {
			return !porcupine.CheckOperations(model, operationsOf(beginning(lines, i+1)))
		})
		last := lines[shortest-1]
		found.Stuck = fmt.Sprintf("%s of %s, number %d", last.Op, last.ID, shortest)
	}
	found.Ms = float64(time.Since(began).Microseconds()) / 1e3
	return found
}

// beginning returns the first operations, as if the history had been cut at the call of the next one.
func beginning(lines []line, count int) []line {
	if count == len(lines) {
		return lines
	}
	cut := lines[count].Call
	var kept []line
	waiting := map[string]bool{}
	for _, one := range lines[:count] {
		isOpen := one.Return == nil || *one.Return >= cut
		switch {
		case isOpen && one.Op == "update" && one.Outcome != "refused":
			one.Outcome, one.Return = "unknown", nil
		case isOpen && one.Op == "acquire":
			waiting[one.ID] = true
			continue
		case isOpen && one.Op == "read", one.Op == "end" && waiting[one.ID]:
			continue
		}
		kept = append(kept, one)
	}
	return kept
}
