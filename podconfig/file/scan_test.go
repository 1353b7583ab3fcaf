// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig/file"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

func TestBadInputIsOneLineAndNothingElseChanges(t *testing.T) {
	tests := []struct {
		name string
		put  func(f *fixture)
		want string // of the file "m.yaml"
	}{
		{"unknown field", func(f *fixture) { f.write("m.yaml", strings.Replace(pod("m", "i"), "image:", "imagee:", 1)) },
			`8:5: spec.containers[0].imagee: unknown field, did you mean "image"?`},
		{"wrong type", func(f *fixture) { f.write("m.yaml", pod("m", "5")) },
			"8:12: spec.containers[0].image: expected a string, got a number: put it in quotes"},
		{"two documents", func(f *fixture) { f.write("m.yaml", pod("m", "i")+"---\n"+pod("x", "i")) },
			"9:1: more than one document, and one is expected"},
		{"duplicate name", func(f *fixture) { f.write("m.yaml", pod("good", "other")) },
			"pod default/good-n is already in good.yaml"},
		{"10 MiB", func(f *fixture) { f.write("m.yaml", pod("m", "i")+strings.Repeat("#", 10<<20)) },
			"manifest is too large: it must be smaller than 10485760 bytes"},
		{"directory", func(f *fixture) { require.NoError(f, os.Mkdir(f.path("m.yaml"), 0o755)) }, "not a regular file but a directory"},
		{"fifo", func(f *fixture) { require.NoError(f, syscall.Mkfifo(f.path("m.yaml"), 0o644)) }, "not a regular file but a named pipe"},
		{"symlink loop", func(f *fixture) { require.NoError(f, os.Symlink("m.yaml", f.path("m.yaml"))) }, "too many levels of symbolic links"},
		{"dangling symlink", func(f *fixture) { require.NoError(f, os.Symlink("nowhere", f.path("m.yaml"))) }, "symbolic link to a file that does not exist"},
		{"device", func(f *fixture) { require.NoError(f, os.Symlink("/dev/zero", f.path("m.yaml"))) }, "not a regular file but a device"},
		{"parent folder in the name", func(f *fixture) { f.write("m.yaml", pod("../../m", "i")) },
			`4:9: metadata.name: Invalid value: "../../m-n": a lowercase RFC 1123 subdomain must consist of`},
		{"parent folder in a path", func(f *fixture) {
			f.write("m.yaml", pod("m", "i")+"    volumeMounts: [{name: v, mountPath: /a, subPath: ../../b}]\n  volumes: [{name: v}]\n")
		}, `9:54: spec.containers[0].volumeMounts[0].subPath: Invalid value: "../../b": must not contain '..'`},
		{"binary", func(f *fixture) { f.write("m.yaml", "\x7fELF\x00\x01") }, "1:1: manifest is not a text file: it contains the byte 0x7f"},
		{"empty", func(f *fixture) { f.write("m.yaml", "") }, "manifest is empty"},
		{"not YAML", func(f *fixture) { f.write("m.yaml", "a: [") }, "1:1: not valid YAML: a value or a closing ] or } is missing"},
		{"API reference", func(f *fixture) { f.write("m.yaml", pod("m", "i")+"  serviceAccountName: x\n") },
			"9:23: spec.serviceAccountName: static pods may not reference serviceaccounts"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t)
				f.write("good.yaml", pod("good", "i"))
				before := f.scan()
				require.True(t, before.Changed)
				require.Equal(t, []string{"good=i"}, images(before.Pods))

				tt.put(f)
				after := f.scan()
				assert.False(t, after.Changed)
				assert.Same(t, before.Pods[0], after.Pods[0])
				told := f.told()
				require.Len(t, told, 1)
				assert.True(t, strings.HasPrefix(strings.TrimSpace(strings.TrimPrefix(told[0], "m.yaml:")), tt.want), told[0])
				assert.Less(t, len(told[0]), 500)

				f.scan()
				assert.Empty(t, f.told(), "told once")
				f.remove("m.yaml")
				assert.Equal(t, []string{"good=i"}, f.settle())
				assert.Equal(t, []string{"m.yaml ok"}, f.told())
			})
		})
	}
}

func TestWhatIsNoManifest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.write(".hidden.yaml", pod("hidden", "i"))
		f.write("any.extension", pod("a", "i"))
		require.NoError(t, os.Mkdir(f.path("folder"), 0o755))
		f.write("folder/below.yaml", pod("below", "i"))
		require.NoError(t, os.Symlink("any.extension", f.path(".link")))
		outside := filepath.Join(t.TempDir(), "outside")
		require.NoError(t, os.WriteFile(outside, []byte(pod("b", "i")), 0o644))
		require.NoError(t, os.Symlink(outside, f.path("link.yaml")))
		assert.Equal(t, []string{"a=i", "b=i"}, f.settle())
		assert.Equal(t, []string{"folder: not a regular file but a directory"}, f.told())
	})
}

// vim keeps "x~", and users keep "x.bak". The kubelet reads both and silently lets the last file
// win (136962).
func TestUpstream136962BackupSilentlyOverridesManifest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.write("k.yaml", pod("k", "new"))
		for _, name := range []string{"k.yaml.bak", "k.yaml~", "#k.yaml#", "k.yaml.swp", "k.yaml.orig", ".k.yaml.swp"} {
			f.write(name, pod("k", "old"))
		}
		assert.Equal(t, []string{"k=new"}, f.settle())
		f.remove("k.yaml")
		time.Sleep(time.Second)
		assert.Empty(t, f.settle(), "nor does a backup take over")
		assert.Empty(t, f.told())
	})
}

// Of two valid manifests of the same name, the first is used. When it disappears, the other is used
// at once.
func TestDuplicateIsReportedAndTakesOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.write("k.yaml", pod("k", "new"))
		f.write("k2.yaml", pod("k", "old"))
		assert.Equal(t, []string{"k=new"}, f.settle())
		assert.Equal(t, []string{"k2.yaml: pod default/k-n is already in k.yaml"}, f.told())

		f.remove("k.yaml")
		require.Equal(t, []string{"k=new"}, images(f.scan().Pods), "it may only be on its way")
		time.Sleep(file.DefaultDebounce)
		r := f.scan()
		assert.Equal(t, []string{"k=old"}, images(r.Pods), "the loser is promoted in the scan that drops the winner")
		assert.Equal(t, []string{"k2.yaml ok"}, f.told())
	})
}

// A copy beside a manifest does not take over its pod, even if its name sorts first.
func TestACopyThatComesFirstEndsNoPod(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.write("web.yaml", pod("web", "i"))
		f.settle()
		before := f.scan().Pods
		f.write("web-copy.yaml", pod("web", "j"))
		f.settle()
		assert.Equal(t, before, f.scan().Pods)
		assert.Equal(t, []string{"web-copy.yaml: pod default/web-n is already in web.yaml"}, f.told())
		f.write("web.yaml", pod("web", "k"))
		assert.Equal(t, []string{"web=k"}, f.settle(), "its own edits count")
	})
}

// Deleting the loser makes the kubelet drop the pod until the next listing.
func TestUpstreamDeletingTheLosingDuplicateDropsThePod(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.write("a.yaml", pod("k", "i"))
		f.write("b.yaml", pod("k", "j"))
		f.settle()
		f.remove("b.yaml")
		time.Sleep(time.Second)
		assert.Equal(t, []string{"k=i"}, f.settle())
		assert.False(t, f.scan().Changed)
	})
}

// In a folder, the kubelet drops the pod of a file that is malformed or half-written at the time of
// listing; a single file keeps it.
func TestUpstreamMalformedFileKillsItsPod(t *testing.T) {
	for _, broken := range []string{"", "apiVersion: v1\nkind: Po", pod("a", "i")[:60], "\x00", pod("a", "i") + "  x: y\n"} {
		bubble(t, func(t *testing.T) {
			f := newFixture(t)
			f.write("a.yaml", pod("a", "i"))
			f.settle()
			f.write("a.yaml", broken)
			assert.Equal(t, []string{"a=i"}, f.settle())
			assert.Len(t, f.told(), 1)
			f.write("a.yaml", pod("a", "j"))
			assert.Equal(t, []string{"a=j"}, f.settle())
			assert.Equal(t, []string{"a.yaml ok"}, f.told())
			f.write("a.yaml", broken)
			f.remove("a.yaml")
			time.Sleep(time.Second)
			assert.Empty(t, f.settle(), "the last good content lives as long as its file")
		})
	}
}

func TestDropInvalidIsWhatTheKubeletDoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, func(c *file.Config) { c.DropInvalid = true })
		f.write("a.yaml", pod("a", "i"))
		f.write("b.yaml", pod("b", "i"))
		f.settle()
		f.write("a.yaml", "a: [")
		assert.Equal(t, []string{"b=i"}, f.settle())
	})
}

// The kubelet's event shows the pod under both its old and new name until the next listing.
func TestUpstreamRenamedPodRunsTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.write("a.yaml", pod("old", "i"))
		f.settle()
		f.write("a.yaml", pod("new", "i"))
		assert.Equal(t, []string{"new=i"}, images(f.scan().Pods))
	})
}

// The kubelet finds folders by pattern: a folder named [ab] counts as empty, and all its pods are
// removed.
func TestUpstreamFolderNameIsReadAsPattern(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.dir = filepath.Join(f.dir, "[ab]*?\\")
		require.NoError(t, os.Mkdir(f.dir, 0o755))
		f.source = f.newSource()
		f.write("a.yaml", pod("a", "i"))
		assert.Equal(t, []string{"a=i"}, f.settle())
	})
}

func TestRenamedFileIsAnotherPodUnlessItHoldsAUID(t *testing.T) {
	for _, uid := range []string{"", "  uid: own\n"} {
		bubble(t, func(t *testing.T) {
			f := newFixture(t)
			f.write("a.yaml", strings.Replace(pod("a", "i"), "spec:", uid+"spec:", 1))
			f.settle()
			before := f.scan().Pods
			f.rename("a.yaml", "b.yaml")
			between := f.scan()
			assert.Equal(t, uids(before), uids(between.Pods), "the old file still counts")
			time.Sleep(file.DefaultDebounce)
			after := f.scan()
			require.Len(t, after.Pods, 1)
			assert.Equal(t, uid != "", before[0].UID == after.Pods[0].UID)
			assert.Empty(t, f.told(), "moving a file is no problem")
		})
	}
}

func TestOnlyChangedFilesAreReadAgain(t *testing.T) {
	// In real time, because files have real times.
	decoded := 0
	f := newFixture(t, func(c *file.Config) {
		c.Decoder = &manifest.Decoder{NodeName: "n", Policy: nil, Warn: func(manifest.Origin, string) { decoded++ }}
	})
	text := pod("a", "i") + "unknown: field\n"
	f.write("a.yaml", text)
	f.scan()
	require.Equal(t, 1, decoded)
	f.write("a.yaml", text)
	assert.False(t, f.scan().Changed, "same content")
	require.Equal(t, 1, decoded)
	f.write("a.yaml", strings.Replace(text, "image: i", "image: j", 1))
	assert.True(t, f.scan().Changed, "same size, and the clock may not have moved")
	require.Equal(t, 2, decoded)
}
