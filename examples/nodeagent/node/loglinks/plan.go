// SPDX-License-Identifier: Apache-2.0

package loglinks

import (
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

// link is a symbolic link: its name in the folder of links, and the path of a log file.
type link struct{ name, target string }

// maxName is the longest name of a link, as in the kubelet.
const maxName = 255

const suffix = ".log"

// linkName returns NAME_NAMESPACE_CONTAINER-ID.log, which is cut before the suffix if it is too long for
// a file. The name is "" if a part is missing, or could not stand in a file name.
func linkName(pod, namespace, container, id string) string {
	for _, part := range []string{pod, namespace, container, id} {
		if part == "" || strings.ContainsFunc(part, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '/' || r == '\\' }) {
			return ""
		}
	}
	name := pod + "_" + namespace + "_" + container + "-" + id
	return name[:min(len(name), maxName-len(suffix))] + suffix
}

// linksOf returns the links of a pod's containers. A container with a log outside logs has no link.
func linksOf(logs string, status *runtime.PodStatus) (all []link) {
	for i := range status.Containers {
		c := &status.Containers[i]
		name := linkName(status.Name, status.Namespace, c.Name, c.ID.ID)
		if _, below := uidOf(logs, c.LogPath); name != "" && below {
			all = append(all, link{name, c.LogPath})
		}
	}
	return all
}

// uidOf returns the UID of the pod of a log file, NAMESPACE_NAME_UID/CONTAINER/COUNT.log below logs. ok
// is false for other paths.
func uidOf(logs, target string) (uid types.UID, ok bool) {
	if target != filepath.Clean(target) {
		return "", false
	}
	path, err := filepath.Rel(logs, target)
	if err != nil {
		return "", false
	}
	parts := strings.Split(path, string(filepath.Separator))
	folder := strings.SplitN(parts[0], "_", 3)
	if len(parts) != 3 || len(folder) != 3 || folder[2] == "" {
		return "", false
	}
	return types.UID(folder[2]), true
}

// present is a link in the folder.
type present struct {
	link
	broken bool // the log file is missing
}

// changes returns the names to remove, and then the links to make, both sorted. wanted has the links of
// each pod that was synced. Links of other pods stay until their log is gone. Files, and links to other
// places than logs, are not touched.
func changes(logs string, have []present, wanted map[types.UID][]link) (remove []string, create []link) {
	targets := map[string]string{} // by name
	for _, links := range wanted {
		for _, l := range links {
			targets[l.name] = l.target
		}
	}
	fine := map[string]bool{}
	for _, h := range have {
		uid, ours := uidOf(logs, h.target)
		_, synced := wanted[uid]
		switch {
		case !ours:
			fine[h.name] = true // not to be overwritten, either
		case targets[h.name] == h.target && h.target != "":
			fine[h.name] = true // its log may be missing for a moment, during a rotation
		case h.broken || synced || targets[h.name] != "":
			remove = append(remove, h.name)
		default:
			fine[h.name] = true
		}
	}
	for name, target := range targets {
		if !fine[name] {
			create = append(create, link{name, target})
		}
	}
	slices.Sort(remove)
	slices.SortFunc(create, func(a, b link) int { return strings.Compare(a.name, b.name) })
	return remove, create
}
