// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// logFolder is the log folder of a pod.
type logFolder struct {
	Name       string // below the root of logs
	UID        types.UID
	Containers []logFiles
}

// logFiles lists the instances of a container with log files, including rotated files.
type logFiles struct {
	Container     string
	RestartCounts []int32 // ascending
}

// logLink is a broken link to a log file.
type logLink struct {
	Name        string // in its folder
	ContainerID string // ContainerID.ID, the end of the name
}

// dropLogs removes the log folders of gone pods without records. In the folders of other pods, dropLogs
// removes the files of instances without records.
func (p *gcPlan) dropLogs() {
	for _, folder := range p.in.Logs {
		pod := p.left[folder.UID]
		var fate PodFate
		if pod != nil {
			fate = pod.fate
		} else {
			fate = p.in.Query.fate(folder.UID)
		}
		if fate == PodGone && (pod == nil || pod.empty()) {
			p.actions = append(p.actions, gcAction{
				Op: gcRemovePodLogs, UID: folder.UID, Fate: fate, Path: folder.Name, Cause: "the pod is gone",
			})
			continue
		}
		for _, files := range folder.Containers {
			var recorded map[int32]int
			if pod != nil {
				recorded = pod.counts[files.Container]
			}
			for _, n := range unrecorded(files.RestartCounts, recorded) {
				p.actions = append(p.actions, gcAction{
					Op: gcRemoveContainerLogs, UID: folder.UID, Fate: fate, Name: files.Container,
					Path:  path.Join(folder.Name, files.Container, fmt.Sprintf("%d.log", n)),
					Cause: "the record of its container is gone",
				})
			}
		}
	}
}

// unrecorded returns the restart counts of instances without a record whose log files are not
// needed, in ascending order. Counts above every record stay, because such an instance may be
// starting. The highest count stays, because the next restart count is derived from it.
func unrecorded(counts []int32, recorded map[int32]int) []int32 {
	if len(counts) == 0 {
		return nil
	}
	ceiling := slices.Max(counts)
	if len(recorded) > 0 {
		ceiling = min(ceiling, slices.Max(slices.Collect(maps.Keys(recorded))))
	}
	var out []int32
	for _, n := range counts {
		if n < ceiling && recorded[n] == 0 {
			out = append(out, n)
		}
	}
	return out
}

// dropLinks removes broken links, except links of an instance that has not exited: its log file is
// missing for a moment during a rotation.
func (p *gcPlan) dropLinks() {
	alive := make(map[string]bool)
	for _, status := range p.in.Pods {
		for i := range status.Containers {
			if c := &status.Containers[i]; c.State != StateExited {
				alive[c.ID.ID] = true
			}
		}
	}
	for _, link := range p.in.Links {
		if !alive[link.ContainerID] {
			p.actions = append(p.actions, gcAction{Op: gcRemoveLogLink, Path: link.Name, Cause: "its log file is gone"})
		}
	}
}

// podOfLogFolder parses <namespace>_<name>_<uid>, the inverse of podLogDir, or a bare UID. Other
// folders (lost+found) belong to no pod.
func podOfLogFolder(name string) (types.UID, bool) {
	parts := strings.SplitN(name, "_", 3)
	switch {
	case len(parts) == 3 && parts[0] != "" && parts[1] != "" && parts[2] != "":
		return types.UID(parts[2]), true
	case len(parts) == 1 && isBareUID(name):
		return types.UID(name), true
	}
	return "", false
}

// isBareUID recognizes a folder of a kubelet before 1.14, named by the UID alone: in the form of
// RFC 4122, or 32 digits for a static pod.
func isBareUID(name string) bool {
	digits := strings.ReplaceAll(name, "-", "")
	return len(digits) == 32 && strings.Trim(digits, "0123456789abcdef") == "" && (len(name) == 32 || len(name) == 36)
}
