// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"strings"
)

//go:embed accepted/*.txt
var acceptedFiles embed.FS

// accepted maps mutant.key to the reason why no test can or should kill the
// mutant. A mutant has two lines in a file: the key, and the reason after a tab.
type accepted map[string]string

// readAccepted reads all files. Each part has a file, so that two changes seldom
// edit the same file.
func readAccepted(files fs.FS) (accepted, error) {
	names, err := fs.Glob(files, "accepted/*.txt")
	if err != nil {
		return nil, err
	}
	all := accepted{}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		list, err := parseAccepted(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		maps.Copy(all, list)
	}
	return all, nil
}

func parseAccepted(text string) (accepted, error) {
	list, key := accepted{}, ""
	for i, line := range strings.Split(text, "\n") {
		reason, indented := strings.CutPrefix(line, "\t")
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case indented && key == "":
			return nil, fmt.Errorf("line %d: a reason without a mutant above it", i+1)
		case indented:
			list[key], key = strings.TrimSpace(reason), ""
		case key != "":
			return nil, fmt.Errorf("line %d: no reason for %q", i, key)
		case strings.Count(line, " | ") < 3:
			return nil, fmt.Errorf("line %d: want folder | function | kind | text, got %q", i+1, line)
		case list[line] != "":
			return nil, fmt.Errorf("line %d: %q stands twice", i+1, line)
		default:
			key = line
		}
	}
	if key != "" {
		return nil, fmt.Errorf("no reason for %q", key)
	}
	return list, nil
}

// stale returns the folder's keys without a mutant, because the code has
// changed.
func (a accepted) stale(folder string, all []*mutant) []string {
	keys := map[string]bool{}
	for _, m := range all {
		keys[m.key()] = true
	}
	var lines []string
	for key := range a {
		if strings.HasPrefix(key, folder+" | ") && !keys[key] {
			lines = append(lines, key)
		}
	}
	return lines
}
