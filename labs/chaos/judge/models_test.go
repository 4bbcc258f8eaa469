package main

import (
	"fmt"
	"strings"
	"testing"
)

func at(ms float64) *float64    { return &ms }
func text(value string) *string { return &value }

// hold returns the two operations of a grant: acquired between call and entered, and lost or released from end on.
func hold(id, mode string, call, entered, end float64, token int64) []line {
	return []line{
		{Op: "acquire", ID: id, Mode: mode, Call: call, Return: at(entered), Outcome: "ok", Token: token},
		{Op: "end", ID: id, Mode: mode, Call: end, Token: token},
	}
}

func seen(id string, call, end float64, values ...string) line {
	one := line{Op: "read", ID: id, Call: call, Return: at(end), Outcome: "ok", Read: text(values[0])}
	if len(values) > 1 {
		one.Again = text(values[1])
	}
	return one
}

// update writes its id over the value that it has read.
func update(id, outcome, read string, call, end float64) line {
	one := line{Op: "update", ID: id, Call: call, Outcome: outcome, Read: text(read), Value: id}
	if outcome != "unknown" {
		one.Return = at(end)
	}
	return one
}

func together(all ...[]line) []line {
	var lines []line
	for _, some := range all {
		lines = append(lines, some...)
	}
	return lines
}

func TestVerdicts(t *testing.T) {
	for _, one := range []struct {
		name, want string
		lines      []line
	}{
		{"exclusive holds one after another", "lock Ok, tokens Ok",
			together(hold("a", exclusive, 0, 1, 5, 1), hold("b", exclusive, 2, 6, 9, 2))},
		{"a second holder before the end of the first lease", "lock Illegal",
			together(hold("a", exclusive, 0, 1, 5, 1), hold("b", exclusive, 2, 4, 9, 2))},
		{"a grant that was over before its caller had it", "lock Ok, tokens Ok",
			together(hold("late", exclusive, 0, 20, 0, 1), hold("b", exclusive, 2, 6, 30, 2))},
		{"a token that falls", "lock Ok, tokens Illegal",
			together(hold("a", exclusive, 0, 1, 5, 2), hold("b", exclusive, 2, 6, 9, 1))},
		{"a token that is repeated", "lock Ok, tokens Illegal",
			together(hold("a", exclusive, 0, 1, 5, 1), hold("b", exclusive, 2, 6, 9, 1))},
		{"readers at the same time, with one token", "lock Ok, tokens Ok",
			together(hold("a", "shared", 0, 1, 9, 1), hold("b", "shared", 0, 1, 8, 1), hold("w", exclusive, 2, 10, 11, 2))},
		{"a writer among readers", "lock Illegal",
			together(hold("a", "shared", 0, 1, 9, 1), hold("b", "shared", 0, 1, 5, 1), hold("w", exclusive, 2, 7, 11, 2))},
		{"a reader with the token of the writer before it", "lock Ok, tokens Illegal",
			together(hold("w", exclusive, 0, 1, 2, 1), hold("a", "shared", 0, 3, 9, 1))},
		{"a writer with a token below those of the readers before it", "lock Ok, tokens Illegal",
			together(hold("a", "shared", 0, 1, 2, 5), hold("w", exclusive, 0, 3, 9, 4))},
		{"as many holders as permits", "lock Ok, tokens Ok",
			together(hold("a", "permits:2", 0, 1, 9, 2), hold("b", "permits:2", 0, 1, 5, 1), hold("c", "permits:2", 0, 6, 7, 3))},
		{"more holders than permits", "lock Illegal",
			together(hold("a", "permits:2", 0, 1, 9, 0), hold("b", "permits:2", 0, 1, 7, 0), hold("c", "permits:2", 0, 6, 7, 0))},
		{"holders of permits and of other permits", "lock Illegal",
			together(hold("a", "permits:2", 0, 1, 9, 0), hold("b", "permits:3", 0, 2, 7, 0))},

		{"updates one after another", "register Ok",
			[]line{update("a", "ok", "", 0, 1), update("b", "ok", "a", 2, 3), seen("end", 4, 4, "b")}},
		{"a lost update", "register Illegal",
			[]line{update("a", "ok", "", 0, 5), update("b", "ok", "", 2, 3)}},
		{"a refused write that nobody sees", "register Ok",
			[]line{update("late", "refused", "", 0, 9), update("b", "ok", "", 2, 3), seen("end", 10, 10, "b")}},
		{"a refused write that took effect", "register Illegal",
			[]line{update("late", "refused", "", 0, 9), seen("end", 10, 10, "late")}},
		{"an unknown write that took effect", "register Ok",
			[]line{update("a", "unknown", "", 0, 0), update("b", "ok", "a", 2, 3), seen("end", 4, 4, "b")}},
		{"an unknown write that took effect late", "register Ok",
			[]line{update("a", "unknown", "", 0, 0), seen("b", 2, 3, ""), seen("end", 9, 9, "a")}},
		{"an unknown write that never took effect", "register Ok",
			[]line{update("a", "unknown", "", 0, 0), update("b", "ok", "", 2, 3), seen("end", 4, 4, "b")}},
		{"an unknown write over another value than it has read", "register Illegal",
			[]line{update("a", "unknown", "", 0, 0), update("b", "ok", "", 2, 3), seen("end", 4, 4, "a")}},
		{"an outdated read", "register Illegal",
			[]line{update("a", "ok", "", 0, 1), seen("b", 2, 3, "")}},
		{"a read during an update", "register Ok",
			[]line{update("a", "ok", "", 0, 5), seen("b", 1, 2, ""), seen("c", 3, 4, "a")}},
		{"a torn reading", "register Illegal",
			[]line{update("a", "ok", "", 2, 3), seen("b", 1, 4, "", "a")}},
	} {
		var found []string
		byCall(one.lines)
		for _, verdict := range judge(one.lines, len(one.lines)) {
			found = append(found, verdict.Model+" "+verdict.Verdict)
		}
		if got := strings.Join(found, ", "); got != one.want {
			t.Errorf("%s: %s, want %s", one.name, got, one.want)
		}
	}
}

// A mutex whose holder keeps it until it calls release rejects what a lease allows.
func TestNaiveMutexRejectsPausedHolder(t *testing.T) {
	pausedUntil := 20.0
	naive := together(hold("paused", exclusive, 0, 1, pausedUntil, 1), hold("b", exclusive, 2, 6, 9, 2))
	byCall(naive)
	if got := judge(naive, len(naive))[0].Verdict; got != "Illegal" {
		t.Errorf("the naive history is %s", got)
	}
}

func TestRejectionNamesItsOperation(t *testing.T) {
	lines := together(hold("a", exclusive, 0, 1, 5, 1), hold("b", exclusive, 6, 7, 20, 2), hold("c", exclusive, 8, 9, 30, 3))
	for i := 40; i < 80; i += 2 {
		lines = append(lines, hold(fmt.Sprint(i), exclusive, float64(i), float64(i)+0.5, float64(i)+1, int64(i))...)
	}
	byCall(lines)
	if got := judge(lines, len(lines))[0].Stuck; got != "acquire of c, number 4" {
		t.Errorf("stuck at %q", got)
	}
}

// A cut history must not be rejected for what the cut has taken away.
func TestEveryBeginningOfAGoodHistoryIsAccepted(t *testing.T) {
	var locks []line
	registers := []line{}
	last := ""
	for i := range 30 {
		id, from := fmt.Sprint("v", i), float64(10*i)
		locks = append(locks, hold(id, exclusive, from-25, from+1, from+9, int64(i+1))...)
		registers = append(registers, update(id, "ok", last, from+2, from+8), seen(id, from+2, from+15, last))
		last = id
	}
	for _, lines := range [][]line{locks, registers} {
		byCall(lines)
		for count := 1; count <= len(lines); count++ {
			for _, verdict := range judge(lines, count) {
				if verdict.Verdict != "Ok" {
					t.Fatalf("%s of the first %d: %s", verdict.Model, count, verdict.Verdict)
				}
			}
		}
	}
}

// lines.spec.ts compares the files with what test/support/chaos/history/lines.ts writes.
func TestFiles(t *testing.T) {
	for file, want := range map[string]string{
		"testdata/paused-holder.jsonl": "Illegal Ok Ok Ok",
		"testdata/without-fence.jsonl": "Illegal Illegal Ok Ok",
	} {
		verdicts, err := judgeFile(file, 2000)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, verdict := range verdicts {
			found = append(found, verdict.Verdict)
		}
		if got := strings.Join(found, " "); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
}
