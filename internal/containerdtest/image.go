// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"strings"
)

// The images of every instance. Both contain busybox with all its commands in /bin; PauseImage
// sleeps.
const (
	BusyboxImage = "localhost/busybox:1"
	PauseImage   = "localhost/pause:1"
)

// Image describes an image built by a test, without a registry: busybox plus the fields below. The
// zero value of a field is the default of the image format.
type Image struct {
	// Name is the image reference with its tag. Name needs a host, as in localhost/app:1; otherwise
	// the host is docker.io.
	Name string
	// Aliases are further names of the same image.
	Aliases    []string
	Entrypoint []string
	Cmd        []string
	Env        []string // NAME=value
	User       string   // uid, name, uid:gid
	WorkingDir string
	StopSignal string
	Labels     map[string]string
	// Files are further regular files of mode 0644, by absolute path. Files change the image's
	// content, and so its ID.
	Files map[string]string
	// Copies are further regular files with the content of files of this machine, by absolute path
	// in the image.
	Copies map[string]Copy
	// Links are further symbolic links: their targets, by absolute path in the image.
	Links map[string]string
	// Dirs are the absolute paths of further directories of mode 0755. Directories of files need
	// not be listed.
	Dirs []string
}

// Copy is a file of this machine.
type Copy struct {
	From string
	Mode int64 // permissions, in the format of tar; defaults to 0755
}

// names returns all names of the image.
func (i Image) names() []string { return append([]string{i.Name}, i.Aliases...) }

// userFiles define the users, so that images may name a user.
var userFiles = map[string]string{
	"/etc/passwd": "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
	"/etc/group":  "root:x:0:\nnogroup:x:65534:\n",
}

// parts returns the layer and the config of the image.
func (i Image) parts(busybox string) (layer, config []byte, err error) {
	if layer, err = i.layer(busybox); err == nil {
		config, err = i.config(layer)
	}
	return layer, config, err
}

// writeArchive writes images as one archive for ctr images import.
func writeArchive(w io.Writer, busybox string, images ...Image) error {
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	var manifest []entry
	files := map[string][]byte{}
	for _, image := range images {
		layer, config, err := image.parts(busybox)
		if err != nil {
			return err
		}
		e := entry{digest(config) + ".json", image.names(), []string{digest(layer) + ".tar"}}
		files[e.Config], files[e.Layers[0]] = config, layer
		manifest = append(manifest, e)
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	files["manifest.json"] = text
	out := tar.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := addFile(out, name, 0o644, files[name]); err != nil {
			return err
		}
	}
	return out.Close()
}

// config returns the image's configuration with layer as the only layer.
func (i Image) config(layer []byte) ([]byte, error) {
	type process struct {
		Entrypoint []string          `json:",omitempty"`
		Cmd        []string          `json:",omitempty"`
		Env        []string          `json:",omitempty"`
		User       string            `json:",omitempty"`
		WorkingDir string            `json:",omitempty"`
		StopSignal string            `json:",omitempty"`
		Labels     map[string]string `json:",omitempty"`
	}
	type rootfs struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	env := i.Env
	if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "PATH=") }) {
		env = append([]string{"PATH=/bin"}, env...)
	}
	return json.Marshal(struct {
		Architecture string  `json:"architecture"`
		OS           string  `json:"os"`
		Config       process `json:"config"`
		RootFS       rootfs  `json:"rootfs"`
	}{
		runtime.GOARCH, "linux",
		process{i.Entrypoint, i.Cmd, env, i.User, i.WorkingDir, i.StopSignal, i.Labels},
		rootfs{"layers", []string{"sha256:" + digest(layer)}},
	})
}

// layer returns the file system of the image: the same bytes for the same
// files.
func (i Image) layer(busybox string) ([]byte, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	commands, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --list: %w", busybox, err)
	}
	var layer bytes.Buffer
	out := tar.NewWriter(&layer)
	for _, dir := range append([]string{"/bin", "/dev", "/etc", "/proc", "/root", "/sys", "/tmp", "/var"}, i.Dirs...) {
		mode := int64(0o755)
		if dir == "/tmp" {
			mode = 0o1777
		}
		if err := out.WriteHeader(&tar.Header{Name: inArchive(dir) + "/", Typeflag: tar.TypeDir, Mode: mode}); err != nil {
			return nil, err
		}
	}
	if err := addFile(out, "bin/busybox", 0o755, program); err != nil {
		return nil, err
	}
	links := maps.Clone(i.Links)
	if links == nil {
		links = map[string]string{}
	}
	for name := range strings.FieldsSeq(string(commands)) {
		name = "/bin/" + name
		if _, given := links[name]; !given && i.Copies[name].From == "" && name != "/bin/busybox" {
			links[name] = "busybox"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(links)) {
		if err := out.WriteHeader(&tar.Header{Name: inArchive(name), Linkname: links[name], Typeflag: tar.TypeSymlink, Mode: 0o777}); err != nil {
			return nil, err
		}
	}
	files := maps.Clone(userFiles)
	maps.Copy(files, i.Files)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := addFile(out, inArchive(name), 0o644, []byte(files[name])); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(i.Copies)) {
		content, err := os.ReadFile(i.Copies[name].From)
		if err != nil {
			return nil, err
		}
		if err := addFile(out, inArchive(name), cmp.Or(i.Copies[name].Mode, 0o755), content); err != nil {
			return nil, err
		}
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	return layer.Bytes(), nil
}

// inArchive returns the name of an absolute path in an archive.
func inArchive(name string) string { return strings.TrimPrefix(path.Clean(name), "/") }

func addFile(out *tar.Writer, name string, mode int64, content []byte) error {
	header := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode, Size: int64(len(content))}
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	_, err := out.Write(content)
	return err
}

// digest is the SHA-256 of content in hexadecimal.
func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
