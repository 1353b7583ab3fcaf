// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/keelson-dev/keelson/runtime"
)

func TestParseShim(t *testing.T) {
	const id = "2db6a136b7a3cd1be466f54c9d4e7cb506b6894b9c8a9771e5e1f01f1caec0f5"
	whole := shimArgs{"k8s.io", id, "/run/containerd/containerd.sock"}
	for line, want := range map[string]shimArgs{
		"/usr/bin/containerd-shim-runc-v2 -namespace k8s.io -id " + id + " -address /run/containerd/containerd.sock":        whole,
		"containerd-shim-runc-v2 -address /run/containerd/containerd.sock -id " + id + " -namespace k8s.io":                 whole,
		"/usr/bin/containerd-shim-runc-v2 -namespace k8s.io -debug -id " + id + " -address /run/containerd/containerd.sock": whole,
		"containerd-shim-runc-v2 -namespace moby -id " + id + " -address /run/containerd/containerd.sock":                   {"moby", id, whole.address},
		"containerd-shim-runc-v2 -namespace k8s.io -id " + id + " -address /run/containerd/containerd.sock start":           {},
		"containerd-shim-runc-v2 -namespace k8s.io -id " + id + " -address /run/containerd/containerd.sock delete":          {},
		"containerd-shim-runc-v2 -namespace k8s.io -address /run/containerd/containerd.sock":                                {},
		"containerd-shim-runc-v2 -namespace k8s.io -id " + id + " -address containerd.sock":                                 {},
		"containerd-shim-runc-v2 -namespace k8s.io -id " + id + " -address":                                                 {},
		"containerd-shim-kata-v2 -namespace k8s.io -id " + id + " -address /run/containerd/containerd.sock":                 {},
		"vi containerd-shim-runc-v2 -namespace k8s.io -id " + id + " -address /run/containerd/containerd.sock":              {},
		"": {},
	} {
		got, ok := parseShim(strings.Fields(line))
		assert.Equal(t, want != shimArgs{}, ok, line)
		if ok {
			assert.Equal(t, want, got, line)
		}
	}
}

func TestContainerIDIn(t *testing.T) {
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for text, want := range map[string]string{
		"9:name=systemd:/k8s.io/" + a + "\n8:pids:/k8s.io/" + a + "\n":                        a,
		"0::/kubepods/pod12/" + a + "/docker/" + b + "\n":                                     a,
		"0::/kubepods.slice/kubepods-pod12.slice/cri-containerd-" + a + ".scope/init.scope\n": a,
		"0::/user.slice\n": "",
		"":                 "",
	} {
		assert.Equal(t, want, containerIDIn(text), text)
	}
}

func TestBundleOf(t *testing.T) {
	sandbox := func(logs string) map[string]string {
		return map[string]string{"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-log-directory": logs}
	}
	assert.Equal(t, bundleFacts{pod: true, podUID: "u_1"}, bundleOf(sandbox("/var/log/pods/default_web_u_1")))
	for _, annotations := range []map[string]string{
		nil, sandbox(""), sandbox("/var/log/pods/web"), sandbox("/var/log/pods/default_web_"),
		{"io.kubernetes.cri.container-type": "container", "io.kubernetes.cri.sandbox-log-directory": "/logs/default_web_u"},
	} {
		assert.Equal(t, bundleFacts{}, bundleOf(annotations), "%v", annotations)
	}
}

func TestJudgeShim(t *testing.T) {
	gone, pod := bundleFacts{gone: true}, bundleFacts{pod: true, podUID: "u"}
	lost := []childFacts{{pid: 8, id: "lost"}}
	type left struct {
		kind runtime.LeftoverKind
		pid  int
		id   string
		uid  string
		ours bool
	}
	shim := func(uid string, ours bool) []left { return []left{{runtime.LeftoverShim, 7, "s", uid, ours}} }
	for name, test := range map[string]struct {
		facts shimFacts
		want  []left
	}{
		"containerd serves its sandbox":                 {shimFacts{known: true, bundle: pod, children: []childFacts{{8, "c", true}}}, nil},
		"its sandbox is being made":                     {shimFacts{known: true, bundle: pod}, nil},
		"its folder goes before its sandbox does":       {shimFacts{known: true, bundle: gone}, nil},
		"a start below it was cut short":                {shimFacts{known: true, bundle: pod, children: lost}, []left{{runtime.LeftoverProcess, 8, "lost", "", true}}},
		"a process below it is in no container":         {shimFacts{known: true, bundle: pod, children: []childFacts{{pid: 8}}}, nil},
		"its start was cut short":                       {shimFacts{bundle: gone}, shim("", true)},
		"containerd was killed when it was made":        {shimFacts{bundle: pod}, shim("u", true)},
		"and its sandbox runs":                          {shimFacts{bundle: pod, children: lost}, shim("u", true)},
		"it was taken for dead, and its sandbox runs":   {shimFacts{bundle: gone, children: lost}, shim("", true)},
		"another program than the CRI made it":          {shimFacts{}, shim("", false)},
		"what is below it is in no container":           {shimFacts{bundle: gone, children: []childFacts{{pid: 8}}}, shim("", false)},
		"a container below it is known":                 {shimFacts{bundle: gone, children: []childFacts{{8, "c", true}}}, shim("", false)},
		"a container below it is known, another is not": {shimFacts{bundle: pod, children: []childFacts{{8, "lost", false}, {9, "c", true}}}, shim("u", false)},
	} {
		t.Run(name, func(t *testing.T) {
			test.facts.id = "s"
			var got []left
			for _, l := range judgeShim(7, test.facts) {
				got = append(got, left{l.Kind, l.PID, l.ID, string(l.PodUID), l.Ours})
				assert.NotEmpty(t, l.Why)
			}
			assert.Equal(t, test.want, got)
		})
	}
}

func TestListeners(t *testing.T) {
	const text = `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 11 /run/containerd/s/0addf3
0000000000000000: 00000003 00000000 00000000 0001 03 12 /run/containerd/s/0addf3
0000000000000000: 00000002 00000000 00010000 0001 01 13 @abstract
0000000000000000: 00000002 00000000 00010000 0001 01 14 /run/other
0000000000000000: 00000002 00000000 00010000 0001 01 15
`
	open := map[string]bool{"socket:[11]": true, "socket:[12]": true, "socket:[13]": true, "socket:[15]": true, "/dev/null": true}
	assert.Equal(t, []string{"/run/containerd/s/0addf3"}, listeners(text, open))
}
