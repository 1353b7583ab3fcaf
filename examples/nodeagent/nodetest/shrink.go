// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"slices"
	"strings"
)

// Shrink returns a small script for which fails still returns true: without any of its commands, or
// any optional word of a command, it would return false. fails is called often, and must return the
// same result for the same script in nearly all calls. If the failure depends on chance, fails
// should try several times. fails owns its argument.
func Shrink(script *Script, fails func(*Script) bool) *Script {
	s := &shrinker{fails: fails, files: script.Files, name: script.Name}
	lines := slices.Clone(script.Lines)
	for {
		before := cost(lines)
		lines = s.fewer(lines)
		lines = s.shorter(lines)
		if cost(lines) == before {
			return s.script(lines)
		}
	}
}

type shrinker struct {
	fails func(*Script) bool
	files []File
	name  string
}

func (s *shrinker) script(lines []Line) *Script {
	lines = slices.Clone(lines)
	for i := range lines {
		lines[i].Number = i + 1
	}
	return &Script{Name: s.name, Lines: lines, Files: s.files}
}

func cost(lines []Line) (words int) {
	for _, l := range lines {
		words += len(l.Words)
	}
	return words
}

// fewer removes runs of commands, long runs first (delta debugging).
func (s *shrinker) fewer(lines []Line) []Line {
	for size := (len(lines) + 1) / 2; size > 0; size /= 2 {
		for at := 0; at < len(lines); {
			without := slices.Delete(slices.Clone(lines), at, min(at+size, len(lines)))
			if len(without) > 0 && s.fails(s.script(without)) {
				lines = without
			} else {
				at += size
			}
		}
	}
	return lines
}

// shorter removes words of commands, and shortens sleeps.
func (s *shrinker) shorter(lines []Line) []Line {
	for i := range lines {
		for w := len(lines[i].Words) - 1; w > 0; w-- {
			words := slices.Delete(slices.Clone(lines[i].Words), w, w+1)
			if changed, ok := s.replaced(lines, i, words); ok {
				lines = changed
			}
		}
		if words := lines[i].Words; words[0] == "sleep" && words[1] != "1s" {
			if changed, ok := s.replaced(lines, i, []string{"sleep", "1s"}); ok {
				lines = changed
			}
		}
	}
	return lines
}

// replaced tries other words for line i.
func (s *shrinker) replaced(lines []Line, i int, words []string) ([]Line, bool) {
	quoted := Line{Mode: lines[i].Mode, Words: words}.String()
	line, err := parseLine(quoted)
	if err != nil || strings.TrimSpace(quoted) == "" {
		return nil, false
	}
	changed := slices.Clone(lines)
	changed[i] = line
	return changed, s.fails(s.script(changed))
}
