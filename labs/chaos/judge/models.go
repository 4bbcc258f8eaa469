package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/anishathalye/porcupine"
)

// line is one operation of a history. README.md describes the format.
type line struct {
	Op, ID, Process, Key, Mode, Outcome, Value string
	Call                                       float64
	Return                                     *float64
	Token                                      int64
	Read, Again                                *string
}

const exclusive = "exclusive"

// lockState is what a lock remembers. It is comparable, so that Porcupine finds equal states.
type lockState struct {
	mode    string
	holders string // The id of each holder, between spaces.
	// The highest token of the exclusive grants, and of all others.
	alone, shared int64
}

// lockModel is the sequential lock. A grant ends by an operation of its own, whose call is the first moment at which
// its holder may have lost the lock. That operation never returns, so Porcupine may place it at any later moment.
func lockModel(judgesTokens bool) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return lockState{} },
		Step: func(state, input, _ any) (bool, any) {
			lock, op := state.(lockState), input.(line)
			id := " " + op.ID + " "
			if op.Op == "end" {
				if !strings.Contains(lock.holders, id) {
					return false, lock
				}
				lock.holders = strings.Replace(lock.holders, id, "", 1)
				return true, lock
			}
			if lock.holders != "" && (lock.mode != op.Mode || strings.Count(lock.holders, " ")/2 >= most(op.Mode)) {
				return false, lock
			}
			if judgesTokens && op.Token != 0 && !rises(&lock, op) {
				return false, lock
			}
			lock.mode = op.Mode
			lock.holders = insert(lock.holders, id)
			return true, lock
		},
	}
}

// most returns how many holders of this mode may have the lock at the same time.
func most(mode string) int {
	var permits int
	if _, err := fmt.Sscanf(mode, "permits:%d", &permits); err == nil {
		return permits
	}
	if mode == exclusive {
		return 1
	}
	return math.MaxInt
}

// rises records the token of a grant, and returns whether it is above the tokens of earlier grants. Those of readers,
// and those of permits, are not ordered among each other.
func rises(lock *lockState, op line) bool {
	if op.Token <= lock.alone || (op.Mode == exclusive && op.Token <= lock.shared) {
		return false
	}
	if op.Mode == exclusive {
		lock.alone = op.Token
	} else {
		lock.shared = max(lock.shared, op.Token)
	}
	return true
}

// insert adds an id in the order of the ids, so that the same holders are the same text.
func insert(holders, id string) string {
	for at := 0; at < len(holders); {
		next := at + 1 + strings.IndexByte(holders[at+1:], ' ') + 1
		if id < holders[at:next] {
			return holders[:at] + id + holders[at:]
		}
		at = next
	}
	return holders + id
}

// registerModel is a register whose updates read and write in one step. Its state is the last value.
func registerModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, input, _ any) (bool, any) {
			op := input.(line)
			hasRead := *op.Read == state.(string) && (op.Again == nil || *op.Again == *op.Read)
			switch {
			case op.Op == "read":
				return hasRead, state
			case op.Outcome == "refused":
				return true, state
			case op.Outcome == "unknown" && !hasRead:
				// It never took effect. One that takes effect elsewhere writes over another value, and is rejected there.
				return true, state
			}
			return hasRead, op.Value
		},
	}
}

// operationsOf translates lines for Porcupine.
func operationsOf(lines []line) []porcupine.Operation {
	var operations []porcupine.Operation
	for _, one := range lines {
		end := int64(math.MaxInt64)
		if one.Return != nil {
			end = nanoseconds(*one.Return)
		}
		operations = append(operations, porcupine.Operation{Input: one, Call: nanoseconds(one.Call), Return: end})
	}
	return operations
}

func nanoseconds(ms float64) int64 { return int64(math.Round(ms * 1e6)) }
