// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Place is where the volume of one pod lives under the root of the agent. The
// layout is the kubelet's (1.36). It is comparable.
type Place struct {
	// Root is Options.Root, "/var/lib/kubelet" for the kubelet. Absolute.
	Root string
	// PodUID is the pod's; for static pods that of the source, not of the mirror.
	PodUID types.UID
	// Plugin is the plugin's name, not escaped.
	Plugin string
	// Inner is Spec.InnerName.
	Inner string
}

// PodDir is the folder of the pod, pods/<uid>.
func (p Place) PodDir() string { return filepath.Join(p.Root, "pods", string(p.PodUID)) }

// Dir is the volume's own folder, pods/<uid>/volumes/<plugin>/<inner>. It is the
// plugin's: SetUp makes it, TearDown removes it.
func (p Place) Dir() string {
	return filepath.Join(p.PodDir(), "volumes", EscapePluginName(p.Plugin), p.Inner)
}

// BlockPath is the link to the device of a block volume,
// pods/<uid>/volumeDevices/<plugin>/<inner>.
func (p Place) BlockPath() string {
	return filepath.Join(p.PodDir(), "volumeDevices", EscapePluginName(p.Plugin), p.Inner)
}

// Record is the file with the mount record, pods/<uid>/<plugin>~<inner>.mount.json.
// It is the manager's. A name that would be too long for a file is hashed.
func (p Place) Record() string { return filepath.Join(p.PodDir(), p.recordName()) }

// StateDir is for what a plugin remembers of the volume beside its folder,
// pods/<uid>/plugins/<plugin>/<inner>. The plugin makes it if it needs it;
// TearDown removes the files in it. The manager removes the folder after TearDown.
func (p Place) StateDir() string {
	return filepath.Join(p.PodDir(), "plugins", EscapePluginName(p.Plugin), p.Inner)
}

// SubpathsDir is where containers' bind mounts of parts of the volume are,
// pods/<uid>/volume-subpaths/<inner>.
func (p Place) SubpathsDir() string {
	return filepath.Join(p.PodDir(), "volume-subpaths", p.Inner)
}

// Check returns an error that names the part of p that would lead out of Root.
func (p Place) Check() error {
	if !filepath.IsAbs(p.Root) {
		return fmt.Errorf("root %q is not absolute", p.Root)
	}
	for _, part := range []struct{ what, name string }{
		{"pod UID", string(p.PodUID)}, {"plugin name", EscapePluginName(p.Plugin)}, {"volume name", p.Inner},
	} {
		if !isElement(part.name) {
			return fmt.Errorf("%s %q is no path element", part.what, part.name)
		}
	}
	return nil
}

// recordSuffix ends the names of mount records, temporary after that those of
// files that are not complete yet.
const (
	recordSuffix = ".mount.json"
	temporary    = ".tmp"
)

// recordName is the name of the record in the folder of the pod.
func (p Place) recordName() string {
	name := EscapePluginName(p.Plugin) + "~" + p.Inner
	if len(name)+len(recordSuffix)+len(temporary) > maxElement {
		name = fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
	}
	return name + recordSuffix
}

// placeOfRecord is the reverse of recordName, for a file in the folder of a pod.
// It is not ok for a name that was hashed, or is no record's.
func placeOfRecord(root string, uid types.UID, name string) (Place, bool) {
	name, ok := strings.CutSuffix(name, recordSuffix)
	parts := strings.SplitN(name, "~", 3) // a plugin's name has one slash, and no "~"
	if !ok || len(parts) != 3 {
		return Place{}, false
	}
	p := Place{Root: root, PodUID: uid, Plugin: parts[0] + "/" + parts[1], Inner: parts[2]}
	return p, p.Check() == nil
}

// maxElement is how long a file name can be, in bytes.
const maxElement = 255

// isElement reports whether name can be a file name that stays in its folder.
func isElement(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxElement && !strings.ContainsAny(name, "/\x00")
}

// EscapePluginName is the plugin's name as it is used for folders: "/" becomes "~".
func EscapePluginName(name string) string { return strings.ReplaceAll(name, "/", "~") }

// UnescapePluginName is the reverse of EscapePluginName.
func UnescapePluginName(name string) string { return strings.ReplaceAll(name, "~", "/") }
