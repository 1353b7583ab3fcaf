// SPDX-License-Identifier: Apache-2.0

package walls

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

var (
	user = Host{Linux: true, Landlock: 7, Seccomp: true}
	root = Host{Linux: true, Root: true, Caps: 1<<len(capabilities) - 1, Landlock: 7, Seccomp: true}
	// bind may bind low ports, as a unit of systemd with AmbientCapabilities.
	bind = Host{Linux: true, Caps: 1 << 10, Landlock: 7, Seccomp: true}
	old  = Host{Linux: true, Landlock: 2}
	mac  = Host{}
)

func TestUnmet(t *testing.T) {
	for _, tt := range []struct {
		name string
		host Host
		ask  Ask
		want []string
	}{
		{"restricted", user, Ask{NoNewPrivs: true, Drop: []string{"ALL"}}, nil},
		{"hardened", user, Ask{NoNewPrivs: true, Drop: []string{"ALL"}, ReadOnlyRoot: true}, nil},
		{"add without", user, Ask{Add: []string{"NET_BIND_SERVICE"}}, []string{"capabilities.add"}},
		{"add with", bind, Ask{Add: []string{"NET_BIND_SERVICE"}, Drop: []string{"ALL"}}, nil},
		{"add all", bind, Ask{Add: []string{"ALL"}}, []string{"capabilities.add"}},
		{"root may add all", root, Ask{Add: []string{"ALL", "CAP_SYS_ADMIN"}}, nil},
		{"no such capability", root, Ask{Add: []string{"FLY"}, Drop: []string{"SWIM"}}, []string{"capabilities.add", "capabilities.drop"}},
		{"root without SETPCAP", Host{Linux: true, Root: true}, Ask{Drop: []string{"ALL"}}, []string{"capabilities.drop"}},
		{"old kernel", old, Ask{ReadOnlyRoot: true}, []string{"readOnlyRootFilesystem"}},
		{"gain and filter", user, Ask{MayGain: true, ReadOnlyRoot: true}, []string{"allowPrivilegeEscalation"}},
		{"gain alone", user, Ask{MayGain: true}, nil},
		{"root gains nothing", root, Ask{MayGain: true, ReadOnlyRoot: true}, nil},
		{"macOS", mac, Ask{NoNewPrivs: true, ReadOnlyRoot: true}, []string{"readOnlyRootFilesystem", "allowPrivilegeEscalation"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var fields []string
			for _, u := range tt.host.Unmet(tt.ask) {
				fields = append(fields, u.Field)
				assert.NotEmpty(t, u.Why)
			}
			assert.Equal(t, tt.want, fields)
			assert.Empty(t, tt.host.Unmet(tt.host.Leniently(tt.ask, "")), "leniently")
		})
	}
}

func TestUnmetProfile(t *testing.T) {
	local, out, none := "a/b.json", "../b.json", ""
	for _, tt := range []struct {
		name, root string
		host       Host
		profile    *v1.SeccompProfile
		want       string
	}{
		{"none", "", old, nil, ""},
		{"unconfined", "", old, &v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined}, ""},
		{"default", "", user, &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}, ""},
		{"no filters", "", old, &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}, "has no system call filters"},
		{"local", "/s", user, &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: &local}, ""},
		{"no folder", "", user, &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: &local}, "no folder"},
		{"outside", "/s", user, &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: &out}, "no path below"},
		{"empty", "/s", user, &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: &none}, "no path below"},
		{"missing", "/s", user, &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost}, "no path below"},
		{"unknown", "/s", user, &v1.SeccompProfile{Type: "Strict"}, "no type"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			why := tt.host.UnmetProfile(tt.profile, tt.root)
			if tt.want == "" {
				assert.Empty(t, why)
			} else {
				assert.Contains(t, why, tt.want)
			}
		})
	}
}

func TestUnmetConfined(t *testing.T) {
	assert.Empty(t, user.UnmetConfined())
	assert.Contains(t, Host{Linux: true, Root: true, Seccomp: true, Landlock: 7}.UnmetConfined(), "CAP_SETPCAP")
	assert.Contains(t, mac.UnmetConfined(), "no system call filters")
	assert.Contains(t, Host{Linux: true, Seccomp: true, Landlock: 5}.UnmetConfined(), "needs Landlock ABI 6 of Linux 6.12, this kernel has ABI 5")
}

func TestPlan(t *testing.T) {
	paths := Paths{Work: "/w", Message: "/w/dev/termination-log", Volumes: []Volume{{HostPath: "/v"}, {HostPath: "/ro", ReadOnly: true}}}
	mask := func(m uint64) *uint64 { return &m }
	all := uint64(1<<len(capabilities) - 1)
	write := func(more ...string) []string { return append(append([]string{}, devices...), more...) }
	read := append(append([]string{}, system...), "/w", "/v", "/ro")
	for _, tt := range []struct {
		name string
		host Host
		ask  Ask
		want record.Walls
	}{
		{"nothing", root, Ask{}, record.Walls{}},
		{"may gain", user, Ask{MayGain: true}, record.Walls{}},
		{"no new privileges", user, Ask{NoNewPrivs: true}, record.Walls{NoNewPrivs: true}},
		{"drop without any", user, Ask{Drop: []string{"ALL"}}, record.Walls{NoNewPrivs: true}},
		{"drop of the unit's", bind, Ask{Drop: []string{"ALL"}}, record.Walls{NoNewPrivs: true, Capabilities: mask(0)}},
		{"the unit's for the container", bind, Ask{Drop: []string{"ALL"}, Add: []string{"NET_BIND_SERVICE"}},
			record.Walls{NoNewPrivs: true, Capabilities: mask(1 << 10)}},
		{"root drops all", root, Ask{Drop: []string{"ALL"}, Add: []string{"NET_BIND_SERVICE"}}, record.Walls{NoNewPrivs: true, Capabilities: mask(1 << 10)}},
		{"root drops one", root, Ask{Drop: []string{"CHOWN"}}, record.Walls{NoNewPrivs: true, Capabilities: mask(all &^ 1)}},
		{"root adds", root, Ask{Add: []string{"SYS_ADMIN"}}, record.Walls{}},
		{"filter", user, Ask{Seccomp: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}}, record.Walls{NoNewPrivs: true}},
		{"read-only root", user, Ask{ReadOnlyRoot: true},
			record.Walls{NoNewPrivs: true, Files: &record.Files{Write: write("/w/dev/termination-log", "/v")}}},
		{"confined", user, Ask{Confined: true},
			record.Walls{NoNewPrivs: true, Scoped: true, Files: &record.Files{Read: read, Write: write("/w/dev/termination-log", "/w", "/v")}}},
		{"confined root", root, Ask{Confined: true, Add: []string{"SYS_TIME"}, Drop: []string{"CHOWN"}},
			record.Walls{NoNewPrivs: true, Scoped: true, Capabilities: mask(usual&^1 | 1<<25), Files: &record.Files{Read: read, Write: write("/w/dev/termination-log", "/w", "/v")}}},
		{"confined, read-only root", bind, Ask{Confined: true, ReadOnlyRoot: true},
			record.Walls{NoNewPrivs: true, Scoped: true, Capabilities: mask(0), Files: &record.Files{Read: read, Write: write("/w/dev/termination-log", "/v")}}},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, tt.host.Plan(tt.ask, paths)) })
	}
}

func TestTheContainersContextComesFirst(t *testing.T) {
	yes, no := true, false
	def := &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}
	open := &v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined}
	pod := &v1.PodSecurityContext{SeccompProfile: def}
	assert.Equal(t, Ask{}, AskOf(nil, nil, false))
	assert.Equal(t, Ask{Seccomp: def}, AskOf(pod, nil, false))
	assert.Equal(t, Ask{Seccomp: open}, AskOf(pod, &v1.SecurityContext{SeccompProfile: open}, false))
	assert.Equal(t, Ask{Seccomp: def, Confined: true}, AskOf(nil, nil, true))
	assert.Equal(t, Ask{Seccomp: open, Confined: true}, AskOf(nil, &v1.SecurityContext{SeccompProfile: open}, true))
	assert.Equal(t, Ask{NoNewPrivs: true, ReadOnlyRoot: true, Add: []string{"A"}, Drop: []string{"B"}},
		AskOf(nil, &v1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities: &v1.Capabilities{Add: []v1.Capability{"A"}, Drop: []v1.Capability{"B"}}}, false))
	assert.Equal(t, Ask{MayGain: true}, AskOf(nil, &v1.SecurityContext{AllowPrivilegeEscalation: &yes}, false))
}

func TestCapabilitiesOfAProfile(t *testing.T) {
	assert.Empty(t, user.Capabilities(Ask{}))
	assert.Equal(t, strings.Fields("CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER CAP_FSETID CAP_KILL CAP_SETGID CAP_SETUID CAP_SETPCAP "+
		"CAP_NET_BIND_SERVICE CAP_NET_RAW CAP_SYS_CHROOT CAP_AUDIT_WRITE CAP_SETFCAP"), root.Capabilities(Ask{Confined: true}))
	assert.Equal(t, []string{"CAP_CHOWN", "CAP_SETPCAP"}, root.Capabilities(Ask{Drop: []string{"ALL"}, Add: []string{"setpcap", "CHOWN"}}))
}

func TestPlanOfNamespaces(t *testing.T) {
	uid := int64(7)
	host := user
	host.Namespaces, host.System = true, []string{"/usr", "/etc"}
	paths := Paths{
		Work: "/c/work", Over: "/c/over", Message: "/c/work/dev/termination-log", Hostname: "h", UID: 1000, GID: 1001,
		Volumes: []Volume{
			{HostPath: "/v/inner", ContainerPath: "/data/inner", ReadOnly: true},
			{HostPath: "/v", ContainerPath: "/data"},
			{HostPath: "/f", ContainerPath: "/etc/app/f", File: true},
		},
	}
	w := host.Plan(Ask{Confined: true, ReadOnlyRoot: true, User: &uid}, paths)
	assert.Equal(t, &record.Root{
		Dir: "/c/work", ReadOnly: true, Hostname: "h", OwnUser: true, UID: 7, GID: 1001,
		Mounts: []record.Bind{
			{From: "/usr", To: "/usr", ReadOnly: true},
			{From: "/etc", To: "/etc", ReadOnly: true, Over: "/c/over/etc"},
			{From: "/c/work/dev/termination-log", To: "/dev/termination-log", File: true},
			{From: "/v", To: "/data"},
			{From: "/v/inner", To: "/data/inner", ReadOnly: true},
			{From: "/f", To: "/etc/app/f", File: true},
		},
	}, w.Root)
	assert.Nil(t, w.Files, "the mounts guard the files")
	assert.True(t, w.Scoped && w.NoNewPrivs)
	assert.Equal(t, uint64(usual), *w.Capabilities, "of the user namespace")

	host = root
	host.Namespaces = true
	w = host.Plan(Ask{Confined: true, Drop: []string{"ALL"}}, Paths{Work: "/c/work", HostPID: true, Groups: []uint32{5}})
	assert.Equal(t, &record.Root{Dir: "/c/work", HostPID: true, Groups: []uint32{5}}, w.Root, "root needs no user namespace")
	assert.Zero(t, *w.Capabilities)
	assert.Nil(t, host.Plan(Ask{ReadOnlyRoot: true}, paths).Root, "not confined")
}

// TestEachLayerOff: a host without a layer refuses what needs the layer.
func TestEachLayerOff(t *testing.T) {
	all := user
	all.Namespaces = true
	filter := &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}
	for name, tt := range map[string]struct {
		off     func(*Host)
		confine bool   // refused
		field   string // of a container that asks for everything
	}{
		"all on":            {func(*Host) {}, false, ""},
		"Landlock":          {func(h *Host) { h.Landlock = 0 }, true, "readOnlyRootFilesystem"},
		"Landlock's scopes": {func(h *Host) { h.Landlock = 5 }, true, ""},
		"seccomp":           {func(h *Host) { h.Seccomp = false }, true, "seccompProfile"},
		"namespaces":        {func(h *Host) { h.Namespaces = false }, false, ""}, // check.go refuses their fields
	} {
		t.Run(name, func(t *testing.T) {
			host := all
			tt.off(&host)
			assert.Equal(t, tt.confine, host.UnmetConfined() != "")
			field := ""
			for _, u := range host.Unmet(Ask{NoNewPrivs: true, Drop: []string{"ALL"}, ReadOnlyRoot: true}) {
				field = u.Field
			}
			if host.UnmetProfile(filter, "") != "" {
				field = "seccompProfile"
			}
			assert.Equal(t, tt.field, field)
		})
	}
}
