// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"maps"
	"regexp"
	"slices"
)

// unfilledFields are the fields of the Summary API that only the kubelet fills, with the reason.
var unfilledFields = []struct {
	fields *regexp.Regexp
	reason string
}{
	{regexp.MustCompile(`\.(psi\..*|io\.time)$`), "on cgroup version 1 the kernel has no pressure of cgroups: the kubelet writes zeros"},
	{regexp.MustCompile(`^pods\.(containers\.)?swap\.`), "containerd does not measure swap on cgroup version 1: the kubelet writes zeros"},
}

// addFields adds the names of all fields of a JSON value. The elements of lists count together, except
// for those of systemContainers, which are told apart by their names.
func addFields(to map[string]bool, name string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, field := range v {
			below := key
			if name != "" {
				below = name + "." + key
			}
			addFields(to, below, field)
		}
	case []any:
		for _, element := range v {
			one := name
			if fields, isObject := element.(map[string]any); isObject && name == "node.systemContainers" {
				one += "[" + fields["name"].(string) + "]"
			}
			addFields(to, one, element)
		}
	case nil:
	default:
		to[name] = true
	}
}

// missingFields returns the fields of theirs that ours lacks without a reason, sorted.
func missingFields(theirs, ours map[string]bool) (missing []string) {
	for _, field := range slices.Sorted(maps.Keys(theirs)) {
		if !ours[field] && !isUnfilled(field) {
			missing = append(missing, field)
		}
	}
	return missing
}

func isUnfilled(field string) bool {
	for _, one := range unfilledFields {
		if one.fields.MatchString(field) {
			return true
		}
	}
	return false
}
