// SPDX-License-Identifier: Apache-2.0

package imagestore

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/casetest"
)

// script makes layers of a text: a layer is a line, and an entry is "a/" for a folder, "a" for a
// file, "a->b" for a symbolic link, "a=b" for a hard link, "-a" for a whiteout and "!a" for an
// opaque folder.
func script(text string) (layers [][]entry) {
	for line := range strings.Lines(text) {
		var l []entry
		for _, word := range strings.Fields(line) {
			e := entry{Kind: kindFile, Mode: 0o644, Content: len(l)}
			from, to, isLink := strings.Cut(word, "->")
			name, target, isHard := strings.Cut(word, "=")
			switch {
			case isLink:
				e = entry{Path: from, Kind: kindSymlink, Link: to}
			case isHard:
				e = entry{Path: name, Kind: kindHardlink, Link: target}
			case word[0] == '-':
				e = entry{Path: word[1:], Kind: kindWhiteout}
			case word[0] == '!':
				e = entry{Path: strings.TrimPrefix(word[1:], "/"), Kind: kindOpaque}
			case strings.HasSuffix(word, "/"):
				e = entry{Path: strings.TrimSuffix(word, "/"), Kind: kindFolder, Mode: 0o750}
			default:
				e.Path = word
			}
			l = append(l, e)
		}
		layers = append(layers, l)
	}
	return layers
}

// print returns the nodes of the tree, with the layer and number of each content.
func (n *node) print(at string) (out []string) {
	for _, name := range n.names() {
		c, p := n.children[name], path.Join(at, name)
		switch c.kind {
		case kindFolder:
			out = append(append(out, p+"/"), c.print(p)...)
		case kindSymlink:
			out = append(out, p+"->"+c.link)
		default:
			out = append(out, fmt.Sprintf("%s:%d.%d", p, c.from, c.content))
		}
	}
	return out
}

func applied(layers [][]entry) (*fileTree, error) {
	t := newTree(1000)
	for i, l := range layers {
		if err := t.apply(i, l); err != nil {
			return t, err
		}
	}
	return t, nil
}

func TestTree(t *testing.T) {
	for name, tc := range map[string]struct{ script, want, err string }{
		"files of two layers":                        {"a/ a/x a/y\na/x b", "a/ a/x:1.0 a/y:0.2 b:1.1", ""},
		"missing parents are made":                   {"a/b/c", "a/ a/b/ a/b/c:0.0", ""},
		"the last of two entries stays":              {"a a", "a:0.1", ""},
		"a file replaces a folder with its content":  {"a/ a/x\na", "a:1.0", ""},
		"a folder replaces a file":                   {"a\na/ a/x", "a/ a/x:1.1", ""},
		"a folder replaces a link":                   {"b/ b/x a->b\na/ a/y", "a/ a/y:1.1 b/ b/x:0.1", ""},
		"a folder keeps the content of a folder":     {"a/ a/x\na/", "a/ a/x:0.1", ""},
		"a file replaces a link, not its target":     {"b a->b\na", "a:1.0 b:0.0", ""},
		"whiteout of a file":                         {"a b\n-a", "b:0.1", ""},
		"whiteout of a folder":                       {"a/ a/x a/b/ b\n-a", "b:0.3", ""},
		"whiteout of a missing file":                 {"a\n-b -c/d -a/b", "a:0.0", ""},
		"whiteout before the same layer's file":      {"a/ a/x\n-a a/ a/y", "a/ a/y:1.2", ""},
		"whiteout after the same layer's file":       {"a/ a/x\na/y -a", "a/ a/y:1.0", ""},
		"whiteout of a link":                         {"b/ a->b\n-a", "b/", ""},
		"whiteout through a link":                    {"b/ b/x a->b\n-a/x", "a->b b/", ""},
		"opaque folder":                              {"a/ a/x a/b/ a/b/y c\na/z !a", "a/ a/z:1.0 c:0.4", ""},
		"opaque root":                                {"a/ a/x b\n!/ c", "c:1.1", ""},
		"file through a relative link":               {"usr/lib/ lib->usr/lib\nlib/x", "lib->usr/lib usr/ usr/lib/ usr/lib/x:1.0", ""},
		"file through an absolute link":              {"run/ var/run->/run\nvar/run/x", "run/ run/x:1.0 var/ var/run->/run", ""},
		"a link out of the image ends at its root":   {"a->../../../../etc\na/passwd", "a->../../../../etc etc/ etc/passwd:1.0", ""},
		"an absolute link is below the image's root": {"a->/etc\na/passwd", "a->/etc etc/ etc/passwd:1.0", ""},
		"a link to the root":                         {"a->/\na/b", "a->/ b:1.0", ""},
		"hard link":                                  {"a b=a", "a:0.0 b:0.0", ""},
		"hard link to a lower layer":                 {"a/ a/x\nb=a/x a/x", "a/ a/x:1.1 b:0.1", ""},
		"hard link to a link":                        {"a->x b=a", "a->x b->x", ""},
		"hard link through a link":                   {"c/ c/x a->c b=a/x", "a->c b:0.1 c/ c/x:0.1", ""},

		"hard link to nothing":    {"a=b", "", "not a file of the image"},
		"hard link to a folder":   {"b/ a=b", "", "not a file of the image"},
		"hard link to itself":     {"a=a", "", "not a file of the image"},
		"hard link to a whiteout": {"a\n-a b=a", "", "not a file of the image"},
		"below a file":            {"a\na/b", "", "in the place of a folder"},
		"links in a circle":       {"a->b b->a\na/x", "", "40 symbolic links"},
		"link to itself":          {"a->a a/x", "", "40 symbolic links"},
		"long name in a link":     {"a->" + strings.Repeat("n", 256) + " a/x", "", "longer than 255"},
		"deep by links":           {"a->" + strings.Repeat("d/", 200) + " a/b->" + strings.Repeat("d/", 100) + " a/b/x", "", "255 folders deep"},
	} {
		t.Run(name, func(t *testing.T) {
			tree, err := applied(script(tc.script))
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, strings.Join(tree.root.print(""), " "))
		})
	}
}

func TestTreeIsBounded(t *testing.T) {
	tree := newTree(3)
	require.NoError(t, tree.apply(0, script("a/ a/x a/y")[0]))
	require.NoError(t, tree.apply(1, script("a/x -a/y a/z")[0]), "what is replaced or removed does not count")
	require.ErrorIs(t, tree.apply(2, script("b")[0]), errTooMany)

	tree = newTree(100)
	tree.steps = 1000
	require.NoError(t, tree.apply(0, script("a b c d e f g h i j")[0]))
	err := tree.apply(0, slices.Repeat([]entry{{Kind: kindOpaque}}, 1000))
	require.ErrorIs(t, err, errTooLong, "opaque folders that remove nothing")
	tree = newTree(100)
	tree.steps = 1000
	loop := script("a->b/../b/../b/../b b->.")[0]
	err = tree.apply(0, append(loop, slices.Repeat([]entry{{Path: "a/x", Kind: kindFile}}, 1000)...))
	require.ErrorIs(t, err, errTooLong, "links")
}

func TestTreeMode(t *testing.T) {
	tree, err := applied([][]entry{
		{{Path: "a", Kind: kindFolder, Mode: 0o700, UID: 1}, {Kind: kindFolder, Mode: 0o711, GID: 2}},
		{{Path: "a", Kind: kindFolder, Mode: 0o750, UID: 3}, {Path: "a/b/c", Kind: kindFile}},
	})
	require.NoError(t, err)
	a := tree.root.children["a"]
	assert.Equal(t, []any{a.mode, a.uid, tree.root.mode, tree.root.gid}, []any{script("x/")[0][0].Mode, 3, entry{Mode: 0o711}.Mode, 2})
	assert.Equal(t, entry{Mode: 0o755}.Mode, a.children["b"].mode, "of a folder without an entry")
}

// model is the second implementation: a map of paths, without links, in which every rule is a loop
// over all paths.
type model map[string]modelNode

type modelNode struct {
	layer  int
	folder bool
	text   string
}

func (m model) below(p string) []string {
	return slices.DeleteFunc(slices.Collect(maps.Keys(m)), func(q string) bool { return p != "" && !strings.HasPrefix(q, p+"/") })
}

func (m model) apply(layer int, e entry, text string) bool {
	for dir := path.Dir(e.Path); dir != "."; dir = path.Dir(dir) {
		n, ok := m[dir]
		switch {
		case ok && !n.folder:
			return e.Kind == kindWhiteout || e.Kind == kindOpaque
		case !ok && (e.Kind == kindFile || e.Kind == kindFolder):
			m[dir] = modelNode{layer, true, dir + "/"}
		}
	}
	old, was := m[e.Path]
	switch e.Kind {
	case kindFile, kindFolder:
		if was && (e.Kind == kindFile || !old.folder) {
			for _, q := range m.below(e.Path) {
				delete(m, q)
			}
		}
		m[e.Path] = modelNode{layer, e.Kind == kindFolder, text}
		return true
	case kindOpaque:
		if was && !old.folder {
			return true
		}
	}
	gone := m.below(e.Path)
	if e.Kind == kindWhiteout && was {
		gone = append(gone, e.Path)
	}
	// The deepest first: a folder stays if something below it stays.
	slices.SortFunc(gone, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, q := range gone {
		if m[q].layer < layer && len(m.below(q)) == 0 {
			delete(m, q)
		}
	}
	return true
}

// TestTreeProperty compares the tree with the model on random layers without links.
func TestTreeProperty(t *testing.T) {
	refused := 0
	for seed := range casetest.Rounds[uint64](5_000) {
		r := rand.New(rand.NewPCG(seed, 18))
		m, tree := model{}, newTree(1000)
		var story []string
	layers:
		for layer := range 1 + r.IntN(4) {
			for i := range 1 + r.IntN(6) {
				p := "abc"[r.IntN(3):][:1]
				for range r.IntN(3) {
					p += "/" + "ab"[r.IntN(2):][:1]
				}
				e := entry{Path: p, Kind: []kind{kindFile, kindFile, kindFolder, kindWhiteout, kindOpaque}[r.IntN(5)], Content: i}
				story = append(story, fmt.Sprintf("%d:%d %s", layer, e.Kind, e.Path))
				text := p + "/"
				if e.Kind == kindFile {
					text = fmt.Sprintf("%s:%d.%d", p, layer, i)
				}
				ok, err := m.apply(layer, e, text), tree.apply(layer, []entry{e})
				require.Equal(t, ok, err == nil, "seed %d: %v: %v", seed, story, err)
				if err != nil {
					refused++
					break layers
				}
			}
			var want []string
			for _, n := range m {
				want = append(want, n.text)
			}
			require.ElementsMatch(t, want, tree.root.print(""), "seed %d: %v", seed, story)
			require.Equal(t, len(m), tree.nodes, "seed %d: %v", seed, story)
		}
	}
	assert.Greater(t, refused, casetest.Rounds(500))
}
