// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// habit is a way to edit or disturb the files of a pod. Errors of an edit, such as a full disk or a
// missing file, are ignored: the oracle examines the result.
type habit struct {
	name string
	do   func(c *chaos, pod string)
}

// habits are chosen with equal probability; a habit listed twice is more frequent.
var habits = []habit{
	{"write", func(c *chaos, pod string) { c.put(c.file(pod), c.text(pod)) }},
	{"write", func(c *chaos, pod string) { c.put(c.file(pod), c.text(pod)) }},
	{"rename over", func(c *chaos, pod string) {
		c.put(c.in("."+pod), c.text(pod))
		c.pause(50 * ms)
		c.move(c.in("."+pod), c.file(pod))
	}},
	{"rename from elsewhere", func(c *chaos, pod string) { c.put(c.base+"/new", c.text(pod)); c.move(c.base+"/new", c.file(pod)) }},
	{"write slowly", writeSlowly},
	{"write slowly", writeSlowly},
	{"truncate", func(c *chaos, pod string) { _ = os.Truncate(c.file(pod), int64(c.IntN(200))) }},
	{"truncate, then restore", func(c *chaos, pod string) {
		data, err := os.ReadFile(c.file(pod))
		_ = os.Truncate(c.file(pod), int64(c.IntN(200)))
		c.pause(3 * chaosDebounce)
		if err == nil {
			c.put(c.file(pod), string(data))
		}
	}},
	{"half of it", func(c *chaos, pod string) { text := c.text(pod); c.put(c.file(pod), text[:c.IntN(len(text))]) }},
	{"rubbish", func(c *chaos, pod string) { c.put(c.file(pod), "{[") }},
	{"append rubbish", func(c *chaos, pod string) { c.write(c.file(pod), "\x00\x01", os.O_APPEND) }},
	{"vim's backup", func(c *chaos, pod string) {
		c.move(c.file(pod), c.file(pod)+"~")
		c.pause(2 * chaosDebounce)
		c.put(c.file(pod), c.text(pod))
		_ = os.Remove(c.file(pod) + "~")
	}},
	{"delete", func(c *chaos, pod string) { _ = os.Remove(c.file(pod)) }},
	{"delete and write", func(c *chaos, pod string) {
		_ = os.Remove(c.file(pod))
		c.pause(2 * chaosDebounce)
		c.put(c.file(pod), c.text(pod))
	}},
	{"chmod", func(c *chaos, pod string) {
		for _, mode := range []os.FileMode{0o000, 0o600, 0o444} {
			_ = os.Chmod(c.file(pod), mode)
			c.pause(chaosDebounce)
		}
		_ = os.Chmod(c.file(pod), 0o644)
	}},
	{"touch", func(c *chaos, pod string) { _ = os.Chtimes(c.file(pod), time.Time{}, time.Unix(int64(c.IntN(1e9)), 0)) }},
	{"copy beside", func(c *chaos, pod string) {
		if data, err := os.ReadFile(c.file(pod)); err == nil {
			c.put(c.in("0-"+pod+".yaml"), string(data))
		}
	}},
	{"another file of that name", func(c *chaos, pod string) { c.put(c.in("x-"+pod+".yaml"), c.text(pod)) }},
	{"the other files go", func(c *chaos, pod string) {
		_ = os.Remove(c.in("0-" + pod + ".yaml"))
		c.pause(chaosDebounce)
		_ = os.Remove(c.in("x-" + pod + ".yaml"))
	}},
	{"rename the file", func(c *chaos, pod string) { c.move(c.file(pod), c.in("x-"+pod+".yaml")) }},
	{"rename the file back", func(c *chaos, pod string) { c.move(c.in("x-"+pod+".yaml"), c.file(pod)) }},
	{"link", func(c *chaos, pod string) { _ = os.Link(c.file(pod), c.in("x-"+pod+".yaml")) }},
	{"atomic writer", atomicWriter},
	{"atomic writer", atomicWriter},
	{"dangling link", func(c *chaos, pod string) { _ = os.Remove(c.file(pod)); _ = os.Symlink("/nowhere/at/all", c.file(pod)) }},
	{"FIFO", func(c *chaos, pod string) {
		_ = syscall.Mkfifo(c.in("x-"+pod+".yaml"), 0o644)
		c.pause(2 * chaosDebounce)
		_ = os.Remove(c.in("x-" + pod + ".yaml"))
	}},
	{"folder in the folder", func(c *chaos, pod string) {
		if os.Mkdir(c.in("x-"+pod+".yaml"), 0o755) == nil {
			c.pause(2 * chaosDebounce)
			_ = os.Remove(c.in("x-" + pod + ".yaml"))
		}
	}},
	{"delete and recreate the folder", func(c *chaos, _ string) { c.replaceFolder(func() { _ = os.RemoveAll(c.dir) }) }},
	{"swap the folder", func(c *chaos, _ string) {
		c.replaceFolder(func() { c.move(c.dir, c.base+"/away"); _ = os.RemoveAll(c.base + "/away") })
	}},
	{"empty the folder", func(c *chaos, _ string) {
		if c.IntN(4) == 0 {
			_ = os.RemoveAll(c.dir)
			c.pause(20 * chaosDebounce)
			_ = os.Mkdir(c.dir, 0o755)
		}
	}},
	{"fill the disk", func(c *chaos, pod string) {
		if c.small {
			_ = os.WriteFile(c.base+"/ballast", make([]byte, 1<<20), 0o600)
			c.pause(chaosDebounce)
			c.put(c.file(pod), c.text(pod))
		}
	}},
	{"clear the disk", func(c *chaos, _ string) { _ = os.Remove(c.base + "/ballast") }},
	{"clear the disk", func(c *chaos, _ string) { _ = os.Remove(c.base + "/ballast") }},
}

func (c *chaos) in(name string) string  { return filepath.Join(c.dir, name) }
func (c *chaos) file(pod string) string { return c.in(pod + ".yaml") }

// text returns a new manifest. Each image differs from other valid images by the end of its line.
func (c *chaos) text(pod string) string {
	c.serial++
	text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\nspec:\n  containers:\n  - name: main\n    image: i%d\n", pod, c.serial)
	return text + strings.Repeat("# and so on\n", c.IntN(3))
}

func (c *chaos) put(path, text string) { c.write(path, text, os.O_CREATE|os.O_TRUNC) }

func (c *chaos) write(path, text string, flags int) {
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK|flags, 0o644)
	if err != nil {
		return
	}
	_, _ = f.WriteString(text)
	_ = f.Close()
}

func (c *chaos) move(from, to string) { _ = os.Rename(from, to) }

// writeSlowly writes a manifest in place, in two halves, with pauses before each and before the
// end.
func writeSlowly(c *chaos, pod string) {
	f, err := os.OpenFile(c.file(pod), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return
	}
	text := c.text(pod)
	half := c.IntN(len(text))
	c.pause(2 * chaosDebounce)
	_, _ = f.WriteString(text[:half])
	c.pause(2 * chaosDebounce)
	_, _ = f.WriteString(text[half:])
	c.pause(2 * chaosDebounce)
	_ = f.Close()
}

// atomicWriter replaces files like the kubelet's config maps: a folder with the new content, and a
// swapped link to it.
func atomicWriter(c *chaos, pod string) {
	text := c.text(pod)
	fresh := fmt.Sprint("..", c.serial)
	old, _ := os.Readlink(c.in("..data"))
	if os.Mkdir(c.in(fresh), 0o755) != nil {
		return
	}
	for _, other := range []string{"a", "b", "c", "d", "e"} { // the others stay as they are
		if data, err := os.ReadFile(c.in("..data/" + other + ".yaml")); err == nil && other != pod {
			c.put(c.in(fresh+"/"+other+".yaml"), string(data))
		}
	}
	c.put(c.in(fresh+"/"+pod+".yaml"), text)
	c.pause(50 * ms)
	_ = os.Symlink(fresh, c.in("..tmp"))
	c.move(c.in("..tmp"), c.in("..data"))
	c.pause(50 * ms)
	if target, _ := os.Readlink(c.file(pod)); target != "..data/"+pod+".yaml" {
		_ = os.Symlink("..data/"+pod+".yaml", c.in(".link"))
		c.move(c.in(".link"), c.file(pod))
	}
	if old != "" {
		_ = os.RemoveAll(c.in(old))
	}
}

// replaceFolder copies the folder, removes the original, and moves the copy to its place after a
// pause.
func (c *chaos) replaceFolder(away func()) {
	copied := c.base + "/copy"
	_ = os.RemoveAll(copied)
	if err := os.CopyFS(copied, os.DirFS(c.dir)); err != nil {
		_ = os.RemoveAll(copied)
		return
	}
	away()
	c.pause(15 * chaosDebounce)
	c.move(copied, c.dir)
	_ = os.MkdirAll(c.dir, 0o755)
}
