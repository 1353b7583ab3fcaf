// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/internal/registry"
)

var (
	idA     = "sha256:" + strings.Repeat("a", 64)
	digestB = "sha256:" + strings.Repeat("b", 64)
	digestC = "sha256:" + strings.Repeat("c", 64)
)

func TestNamesOfAnImage(t *testing.T) {
	app := Image{ID: idA, RepoTags: []string{"registry.example:5000/team/app:1.2"}, RepoDigests: []string{"registry.example:5000/team/app@" + digestB}}
	box := Image{ID: idA, RepoTags: []string{"docker.io/library/busybox:latest"}}
	local := Image{ID: idA, RepoTags: []string{"localhost/busybox:latest", "<none>:<none>"}}
	untagged := Image{ID: idA, RepoTags: []string{"<none>:<none>"}, RepoDigests: []string{"registry.example/app@" + digestB}}
	mirrored := Image{ID: idA, RepoTags: []string{"registry.example/mirror/quay.io/app:1"}}
	long := Image{ID: idA, RepoTags: []string{"registry.example/" + strings.Repeat("x", 64-len("registry.example/")-2) + ":1"}}
	odd := Image{ID: "abc", RepoTags: []string{"docker.io/library/" + idA}, RepoDigests: []string{"a.example/b@" + digestC, "a.example/b@" + digestB}}
	bare := Image{ID: strings.TrimPrefix(idA, "sha256:"), RepoTags: []string{"quay.io/app:1"}}
	tests := []struct {
		name  string
		image Image
		given string
		want  bool
	}{
		{"ID", app, idA, true},
		{"ID without algorithm", app, strings.TrimPrefix(idA, "sha256:"), true},
		{"ID with algorithm of an image without", bare, idA, true},
		{"ID of docker", app, "docker://" + idA, true},
		{"other ID", app, digestC, false},
		{"part of an ID", app, idA[:20], false},
		{"tag", app, "registry.example:5000/team/app:1.2", true},
		{"other tag", app, "registry.example:5000/team/app:1.3", false},
		{"no tag is latest", app, "registry.example:5000/team/app", false},
		{"other registry", app, "registry.example/team/app:1.2", false},
		{"tag without registry", app, "team/app:1.2", true},
		{"tag without anything", app, "app:1.2", true},
		{"half a name", app, "pp:1.2", false},
		{"digest", app, "registry.example:5000/team/app@" + digestB, true},
		{"digest of another repository", app, "elsewhere.example/app@" + digestB, true},
		{"digest of docker", app, "docker-pullable://registry.example:5000/team/app@" + digestB, true},
		{"bare digest", app, digestB, true},
		{"other digest", app, "registry.example:5000/team/app@" + digestC, false},
		{"tag and digest", app, "elsewhere.example/app:9@" + digestB, true},
		{"tag and other digest", app, "registry.example:5000/team/app:1.2@" + digestC, true},
		{"docker's short name", box, "busybox", true},
		{"docker's library", box, "docker.io/busybox", true},
		{"docker's index", box, "index.docker.io/library/busybox:latest", true},
		{"docker's full name", box, "docker.io/library/busybox", true},
		{"docker's other tag", box, "busybox:1", false},
		{"short name from another registry", local, "busybox", true},
		{"local", local, "localhost/busybox", true},
		{"docker's is not the local one", local, "docker.io/library/busybox", false},
		{"tag of nobody", local, "<none>:<none>", false},
		{"lost its tag", untagged, "registry.example/app@" + digestB, true},
		{"docker's ID that is no digest", odd, "docker://abc", true},
		{"a tag that looks like an ID", odd, idA, false},
		{"the second digest", odd, digestB, true},
		{"another registry that is part of a name", mirrored, "quay.io/app:1", false},
		{"as long as an ID", long, long.RepoTags[0], true},
		{"empty", Image{}, "", false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var n names
			n.add(tc.given)
			want := ""
			if tc.want {
				want = tc.given
			}
			assert.Equal(t, want, n.find(&tc.image))
			n.add("registry.example/other:1")
			n.add("sidecar")
			assert.Equal(t, want, n.find(&tc.image), "among others")
		})
	}
}

// TestNamesOfSeveral expects the first matching name, and that an empty name hides no other name.
func TestNamesOfSeveral(t *testing.T) {
	box := Image{RepoTags: []string{"docker.io/library/other:1", "docker.io/library/busybox:latest"}}
	var n names
	n.add("")
	n.addID("")
	n.addID("x")
	assert.Empty(t, n.find(&Image{}))
	n.add("busybox")
	n.add("docker.io/library/busybox:latest")
	assert.Equal(t, "busybox", n.find(&box))

	hex := strings.TrimPrefix(idA, "sha256:")
	for _, id := range []string{idA, hex, "abc"} {
		var ids names
		ids.addID(id)
		for _, image := range []string{idA, hex, "abc"} {
			want := ""
			if (id == "abc") == (image == "abc") {
				want = id
			}
			assert.Equal(t, want, ids.find(&Image{ID: image}))
		}
	}

	n = names{}
	n.addRepository("busybox")
	n.addRepository("docker.io/library/busybox")
	n.addRepository("registry.example/a")
	assert.Equal(t, "busybox", n.findRepository(&box))
	assert.Equal(t, "registry.example/a", n.findRepository(&Image{RepoDigests: []string{"registry.example/a@" + digestB}}))
	assert.Empty(t, n.findRepository(&Image{RepoTags: []string{"registry.example/b:1"}}))
}

// TestPartsOfNames tests docker's rules one by one, because both sides of a comparison use them.
func TestPartsOfNames(t *testing.T) {
	const lib = "docker.io/library/"
	for repository, want := range map[string]string{
		"busybox": lib + "busybox", "docker.io/busybox": lib + "busybox", "index.docker.io/busybox": lib + "busybox",
		lib + "busybox": lib + "busybox", "index." + lib + "busybox": lib + "busybox",
		"team/app": "docker.io/team/app", "docker.io/team/app": "docker.io/team/app", "team/app.x": "docker.io/team/app.x",
		"team/r.example/x": "docker.io/team/r.example/x", "localhost": lib + "localhost", "a.b": lib + "a.b",
		"index.app":   lib + "index.app",
		"localhost/x": "localhost/x", "r.example/x": "r.example/x", "r:5000/x": "r:5000/x", "x./y": "x./y",
	} {
		assert.Equal(t, want, qualify(repository))
		assert.Equal(t, want+":1", canonical(repository+":1"))
		assert.Equal(t, want == repository && !strings.HasPrefix(want, "docker.io/") || strings.HasPrefix(repository, "docker.io/") ||
			strings.HasPrefix(repository, "index.docker.io/"), hasHost(repository), repository)
	}
	for reference, want := range map[string][2]string{
		"a": {"a", ""}, "a:1": {"a", ":1"}, "r:5000/a": {"r:5000/a", ""}, "r:5000/a:1": {"r:5000/a", ":1"}, ":1": {"", ":1"}, "": {"", ""}, "r:/a": {"r:/a", ""},
	} {
		repository, tag := splitTag(reference)
		assert.Equal(t, want, [2]string{repository, tag}, reference)
	}
	hex := strings.Repeat("0123456789abcdef", 4)
	for name, want := range map[string]string{
		hex: "sha256:" + hex, "sha256:" + hex: "sha256:" + hex, "a@b": "b", "@b": "b", "a": "", "abc": "", hex[1:]: "", "": "",
	} {
		assert.Equal(t, want, digestOf(name), name)
	}
	for _, other := range "/:`gGA" {
		for _, at := range []int{0, 31, 63} {
			assert.Empty(t, digestOf(hex[:at]+string(other)+hex[at+1:]), "%c at %d", other, at)
		}
	}
}

// plainMatch is a slow form of find for a single name: it compares all spellings of both sides.
func plainMatch(name string, image *Image) bool {
	spell := func(reference string) (out []string) {
		if _, rest, ok := strings.Cut(reference, "://"); ok {
			reference = rest
		}
		if before, digest, ok := strings.Cut(reference, "@"); ok {
			out = append(out, digest)
			if _, tag := splitTag(before); tag == "" {
				return out
			}
			reference = before
		}
		if hex := strings.TrimPrefix(reference, "sha256:"); len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == "" {
			return append(out, "sha256:"+hex)
		}
		repository, tag := splitTag(reference)
		if tag == "" {
			tag = ":latest"
		}
		if !hasHost(repository) {
			out = append(out, "any registry/"+repository+tag)
		}
		return append(out, qualify(repository)+tag)
	}
	var has []string
	if image.ID != "" {
		has = append(has, spell(image.ID)...)
	}
	for _, digest := range image.RepoDigests {
		has = append(has, spell(digest)...)
	}
	for _, tag := range image.RepoTags {
		repository, t := splitTag(tag)
		full := qualify(repository) + t
		has = append(has, full)
		for i := range len(full) {
			if full[i] == '/' {
				has = append(has, "any registry/"+full[i+1:])
			}
		}
	}
	for _, a := range spell(name) {
		for _, b := range has {
			if a == b {
				return true
			}
		}
	}
	return false
}

func TestNamesMatchThePlainWay(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	repository := func() string {
		return pick("", "docker.io/", "index.docker.io/", "localhost/", "r.example:5000/") + pick("", "library/", "team/") + pick("app", "busybox")
	}
	hex := func() string { return strings.Repeat(pick("a", "b", "c"), 64) }
	tag := func() string { return pick("", ":latest", ":1") }
	hits := 0
	for range casetest.Rounds(50_000) {
		image := Image{ID: pick("", "sha256:") + hex()}
		for range r.IntN(3) {
			image.RepoTags = append(image.RepoTags, repository()+pick(":latest", ":1"))
		}
		for range r.IntN(2) {
			image.RepoDigests = append(image.RepoDigests, repository()+"@sha256:"+hex())
		}
		var name string
		switch r.IntN(4) {
		case 0:
			name = pick("", "sha256:", "docker://sha256:") + hex()
		case 1:
			name = pick("", "docker-pullable://") + repository() + tag() + "@sha256:" + hex()
		default:
			name = repository() + tag()
		}
		var n names
		n.add(name)
		want := plainMatch(name, &image)
		require.Equal(t, want, n.find(&image) != "", "%s: %+v", name, image)
		if want {
			hits++
		}
	}
	assert.InDelta(t, casetest.Rounds(20_000), hits, float64(casetest.Rounds(15_000)), "both answers must occur")
}

// FuzzNames checks that no name causes a panic, and that an image is found by each of its own
// names.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"busybox", "a/b:c@sha256:d", "://", "@", ":", "/", "localhost:5000/x", "sha256:", "index.docker.io/"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, name, other string) {
		var n names
		n.add(name)
		n.addRepository(name)
		p := newProtection([]string{name, other + "*"})
		for _, image := range []Image{{ID: name}, {ID: "x", RepoTags: []string{name}}, {ID: "x", RepoDigests: []string{name}}} {
			if found := n.find(&image); name != "" && name != noTag {
				require.NotEmpty(t, found)
				if !strings.Contains(name, "*") {
					require.NotEmpty(t, p.by(&image))
				}
			}
		}
		strange := Image{ID: other, RepoTags: []string{other}, RepoDigests: []string{other}}
		n.find(&strange)
		p.by(&strange)
	})
}

func TestProtection(t *testing.T) {
	pause := Image{ID: idA, RepoTags: []string{"registry.k8s.io/pause:3.9"}, RepoDigests: []string{"registry.k8s.io/pause@" + digestB}}
	box := Image{ID: digestC, RepoTags: []string{"docker.io/library/busybox:1"}}
	for pattern, want := range map[string][]bool{ // pause, box
		"registry.k8s.io/pause":            {true, false},
		"registry.k8s.io/pause:3.9":        {true, false},
		"registry.k8s.io/pause:3.10":       {false, false},
		"registry.k8s.io/pause@" + digestB: {true, false},
		idA:                                {true, false},
		"registry.k8s.io/*":                {true, false},
		"*/pause:*":                        {true, false},
		"registry*pause*9":                 {true, false},
		"*":                                {true, true},
		"busybox":                          {false, true},
		"docker.io/library/*":              {false, true},
		"*:1":                              {false, true},
		"*box":                             {false, true},
		"*/pause":                          {true, false},
		"*/pau":                            {false, false},
		"sha256:a*":                        {true, false},
		"registry.k8s.io":                  {false, false},
		"nothing.example/at/all":           {false, false},
	} {
		p := newProtection([]string{pattern})
		assert.Equal(t, want, []bool{p.by(&pause) == pattern, p.by(&box) == pattern}, pattern)
	}
	two := Image{ID: digestC, RepoTags: []string{noTag, "r.example/a:1", "busybox:2"},
		RepoDigests: []string{"r.example/a@" + digestB, "q.example/b@" + digestC, "team/x@" + digestC}}
	for pattern, want := range map[string]bool{
		"*a:1": true, "r.example/*": true, "*/a": true, "*busybox:2": true, "busybox:*": true, "bus*": true, "docker.io/library/bus*": true,
		"docker.io/library/*:2": true, "docker.io/team/*": true, "docker.io/library/bus*x": true, "docker.io/library/*x@": false, "docker.io/library/*:4": false,
		"docker.io/*:3": false, "*:3": false, "bus*:3": false, "<none>*": false, "*none*": false, "q.example/*": true, "q.example/b@*": true,
		"*@" + digestB: true, "*@" + digestC[:20]: false, "*/b": true, "*/b:*": false, "*/a@x": false, "bus*@x": false,
	} {
		assert.Equal(t, want, newProtection([]string{pattern}).by(&two) != "", pattern)
	}
	for pattern, want := range map[string]bool{
		"r.example/a:2": false, "r.example/a": true, "r.example/a@" + digestC: true, "r.example/a@" + idA: false, idA: false, "r.example/a:1*": true,
	} {
		assert.Equal(t, want, newProtection([]string{pattern}).by(&two) != "", pattern)
	}
	several := newProtection([]string{"nothing.example/a", "busybox", "none*", "*pause*"})
	assert.Equal(t, "busybox", several.by(&box))
	assert.Equal(t, "*pause*", several.by(&pause))
	digestOnly := Image{ID: idA, RepoDigests: []string{"registry.k8s.io/pause@" + digestB}}
	assert.Equal(t, "registry.k8s.io/pause", newProtection([]string{"registry.k8s.io/pause"}).by(&digestOnly))
}

// TestMatchIsThePlainOne compares match with the recursive definition.
func TestMatchIsThePlainOne(t *testing.T) {
	var plain func(glob, text string) bool
	plain = func(glob, text string) bool {
		if glob == "" {
			return text == ""
		}
		if glob[0] == '*' {
			return plain(glob[1:], text) || text != "" && plain(glob, text[1:])
		}
		return text != "" && glob[0] == text[0] && plain(glob[1:], text[1:])
	}
	r := rand.New(rand.NewPCG(6, 2))
	word := func(letters string, n int) string {
		out := make([]byte, r.IntN(n))
		for i := range out {
			out[i] = letters[r.IntN(len(letters))]
		}
		return string(out)
	}
	hits := 0
	for range casetest.Rounds(100_000) {
		glob, text := word("ab*", 7), word("ab", 8)
		want := plain(glob, text)
		require.Equal(t, want, registry.Match(glob, text), "%q %q", glob, text)
		if want {
			hits++
		}
	}
	assert.Greater(t, hits, 1_000)
}
