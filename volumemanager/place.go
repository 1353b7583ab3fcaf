// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Place identifies the volume of a pod, and its paths under the root of the agent. The layout is
// the kubelet's (1.36). Place is comparable.
type Place struct {
	// Root is Options.Root, "/var/lib/kubelet" for the kubelet. Absolute.
	Root string
	// PodUID is the UID of the pod. For a static pod it is the UID from the source, not that of the
	// mirror pod.
	PodUID types.UID
	// Plugin is the plugin's name, not escaped.
	Plugin string
	// Inner is Spec.InnerName.
	Inner string
}

// PodDir returns the folder of the pod, pods/<uid>.
func (p Place) PodDir() string { return filepath.Join(p.Root, "pods", string(p.PodUID)) }

// Dir returns the volume's own folder, pods/<uid>/volumes/<plugin>/<inner>. The plugin owns the
// folder: SetUp creates it, TearDown removes it.
func (p Place) Dir() string {
	return filepath.Join(p.PodDir(), "volumes", EscapePluginName(p.Plugin), p.Inner)
}

// BlockPath returns the path of the link to the device of a block volume,
// pods/<uid>/volumeDevices/<plugin>/<inner>.
func (p Place) BlockPath() string {
	return filepath.Join(p.PodDir(), "volumeDevices", EscapePluginName(p.Plugin), p.Inner)
}

// Record returns the path of the mount record, pods/<uid>/<plugin>~<inner>.mount.json. The manager
// owns the file. A name too long for a file is hashed.
func (p Place) Record() string { return filepath.Join(p.PodDir(), p.recordName()) }

// StateDir returns the folder for the plugin's state of the volume,
// pods/<uid>/plugins/<plugin>/<inner>. The plugin creates the folder if necessary, and TearDown
// removes the files in it. The manager removes the folder after TearDown.
func (p Place) StateDir() string {
	return filepath.Join(p.PodDir(), "plugins", EscapePluginName(p.Plugin), p.Inner)
}

// SubpathsDir returns the folder for containers' bind mounts of subPaths,
// pods/<uid>/volume-subpaths/<inner>.
func (p Place) SubpathsDir() string {
	return filepath.Join(p.PodDir(), "volume-subpaths", p.Inner)
}

// Check returns an error that names a part of p that would lead out of Root.
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

// recordSuffix is the suffix of mount records. Incomplete files have the suffix temporary after it.
const (
	recordSuffix = ".mount.json"
	temporary    = ".tmp"
)

// recordName returns the name of the record in the folder of the pod.
func (p Place) recordName() string {
	name := EscapePluginName(p.Plugin) + "~" + p.Inner
	if len(name)+len(recordSuffix)+len(temporary) > maxElement {
		name = fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
	}
	return name + recordSuffix
}

// placeOfRecord is the reverse of recordName, for a file in the folder of a pod. It returns false
// for a hashed name, and for a name that is not a record's.
func placeOfRecord(root string, uid types.UID, name string) (Place, bool) {
	name, ok := strings.CutSuffix(name, recordSuffix)
	parts := strings.SplitN(name, "~", 3) // a plugin's name has one slash, and no "~"
	if !ok || len(parts) != 3 {
		return Place{}, false
	}
	p := Place{Root: root, PodUID: uid, Plugin: parts[0] + "/" + parts[1], Inner: parts[2]}
	return p, p.Check() == nil
}

// maxElement is the greatest length of a file name, in bytes.
const maxElement = 255

// isElement reports whether name is a valid file name, so that it cannot lead out of its folder.
func isElement(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxElement && !strings.ContainsAny(name, "/\x00")
}

// EscapePluginName returns the plugin's name for use in folder names: "/" becomes "~".
func EscapePluginName(name string) string { return strings.ReplaceAll(name, "/", "~") }

// UnescapePluginName is the reverse of EscapePluginName.
func UnescapePluginName(name string) string { return strings.ReplaceAll(name, "~", "/") }
