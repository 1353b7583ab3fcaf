// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestPlaceStaysInTheRoot(t *testing.T) {
	good := Place{Root: "/r", PodUID: "uid", Plugin: "example.com/x", Inner: "v"}
	require.NoError(t, good.Check())
	assert.Equal(t, "/r/pods/uid/volumes/example.com~x/v", good.Dir())
	assert.Equal(t, "/r/pods/uid/plugins/example.com~x/v", good.StateDir())
	assert.Equal(t, "/r/pods/uid/volumeDevices/example.com~x/v", good.BlockPath())
	assert.Equal(t, "/r/pods/uid/volume-subpaths/v", good.SubpathsDir())
	longest := good
	longest.Inner = strings.Repeat("x", 255)
	require.NoError(t, longest.Check())
	for _, bad := range []string{"", ".", "..", "a/b", "../x", "a\x00b", strings.Repeat("x", 256)} {
		p := good
		p.Inner = bad
		require.Error(t, p.Check(), "%q", bad)
		p = good
		p.PodUID = types.UID(bad)
		require.Error(t, p.Check(), "%q", bad)
	}
	for _, bad := range []string{"", ".."} {
		p := good
		p.Plugin = bad
		require.Error(t, p.Check(), "%q", bad)
	}
	relative := good
	relative.Root = "r"
	require.Error(t, relative.Check())
}

// The name of a record identifies its volume and is a valid file name; a name that is too long is
// hashed.
func TestPlaceOfRecord(t *testing.T) {
	for _, inner := range []string{"v", "a~b", "~", ".", "x.mount.json", "v.mount", strings.Repeat("v", 200), strings.Repeat("v", 255)} {
		p := Place{Root: "/r", PodUID: "uid", Plugin: "example.com/x", Inner: inner}
		name := p.recordName()
		assert.LessOrEqual(t, len(name)+len(temporary), 255)
		back, ok := placeOfRecord("/r", "uid", name)
		if want := p.Check() == nil && len(inner) <= 200; assert.Equal(t, want, ok, "%q", inner) && ok {
			assert.Equal(t, p, back)
		}
		_, ok = placeOfRecord("/r", "uid", name+temporary)
		assert.False(t, ok, "it is not complete")
	}
	for length := range 256 { // of the name of the temporary file, if not hashed
		prefix := "example.com~x~"
		p := Place{Root: "/r", PodUID: "uid", Plugin: "example.com/x", Inner: strings.Repeat("v", 1+length)}
		whole := prefix + p.Inner + recordSuffix
		assert.Equal(t, len(whole+temporary) <= 255, p.recordName() == whole, "%d", length)
	}
	for _, name := range []string{"", "etc-hosts", "volumes", ".mount.json", "~~.mount.json", "a~b.mount.json", "a~~v.mount.json"} {
		p, ok := placeOfRecord("/r", "uid", name)
		assert.Equal(t, ok, p.Check() == nil && p.recordName() == name, "%q: %+v", name, p)
	}
}

func TestUniqueNames(t *testing.T) {
	plugin := inert{}
	name, err := UniqueVolumeName(plugin, "uid", Spec{Volume: &v1.Volume{Name: "v"}})
	require.NoError(t, err)
	assert.EqualValues(t, "example.com/inert/id", name)
	assert.EqualValues(t, "kubernetes.io/empty-dir/uid-v", privateName("kubernetes.io/empty-dir", "uid", "v"))
	name, err = UniqueVolumeName(named{name: "kubernetes.io/empty-dir"}, "uid", Spec{Volume: &v1.Volume{Name: "v"}})
	require.NoError(t, err)
	assert.EqualValues(t, "kubernetes.io/empty-dir/uid-v", name, "a plugin without shared volumes")
	_, err = UniqueVolumeName(nameless{}, "uid", Spec{Volume: &v1.Volume{Name: "v"}})
	require.EqualError(t, err, "name volume v: no ID")
	p, id, err := SplitUniqueVolumeName("kubernetes.io/csi/driver^a/b")
	require.NoError(t, err)
	assert.Equal(t, "kubernetes.io/csi", p)
	assert.Equal(t, "driver^a/b", id)
	_, _, err = SplitUniqueVolumeName("a/b")
	require.Error(t, err)
	assert.Equal(t, "kubernetes.io/csi", UnescapePluginName(EscapePluginName("kubernetes.io/csi")))
}

func TestPluginFor(t *testing.T) {
	spec := Spec{Volume: &v1.Volume{Name: "v"}}
	_, err := pluginFor([]Plugin{inert{}, inert{}}, spec)
	require.ErrorIs(t, err, ErrNoPlugin)
	require.ErrorContains(t, err, "example.com/inert, example.com/inert")
	_, err = pluginFor(nil, spec)
	require.ErrorIs(t, err, ErrNoPlugin)
	require.ErrorIs(t, err, ErrTerminal)
}

func TestPluginNamed(t *testing.T) {
	plugins := []Plugin{named{name: "a/one"}, named{name: "a/two"}}
	for _, want := range plugins {
		got, ok := pluginNamed(plugins, want.Name())
		assert.True(t, ok)
		assert.Equal(t, want, got)
	}
	_, ok := pluginNamed(plugins, "a/three")
	assert.False(t, ok)
}

func TestUsedVolumes(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{VolumeMounts: []v1.VolumeMount{{Name: "init"}, {Name: "both"}}}},
		Containers:     []v1.Container{{VolumeDevices: []v1.VolumeDevice{{Name: "both"}, {Name: "device"}}}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
			VolumeMounts: []v1.VolumeMount{{Name: "debug"}, {Name: "z-missing"}, {Name: "a-missing"}},
		}}, {EphemeralContainerCommon: v1.EphemeralContainerCommon{
			VolumeMounts: []v1.VolumeMount{{Name: "again"}, {Name: "c-missing"}, {Name: "b-missing"}, {Name: "y-missing"}, {Name: "x-missing"}},
		}}},
		Volumes: []v1.Volume{{Name: "unused"}, {Name: "device"}, {Name: "debug"}, {Name: "both"}, {Name: "init"}, {Name: "again"}, {Name: "both"}},
	}}
	used, uses, missing := usedVolumes(pod)
	var names []string
	for _, vol := range used {
		names = append(names, vol.Name)
	}
	assert.Equal(t, []string{"device", "debug", "both", "init", "again"}, names, "each name once")
	assert.Equal(t, []string{"a-missing", "b-missing", "c-missing", "x-missing", "y-missing", "z-missing"}, missing)
	assert.Equal(t, use{"both", true, true}, uses["both"])

	mode := v1.PersistentVolumeBlock
	block := Spec{PV: &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{VolumeMode: &mode}}}
	require.ErrorContains(t, checkMode(block, use{"v", true, false}), "volume v has volumeMode Block")
	require.ErrorContains(t, checkMode(Spec{}, use{"v", false, true}), "volume v has volumeMode Filesystem")
	require.Error(t, checkMode(block, use{"v", true, true}))
	require.NoError(t, checkMode(block, use{"v", false, true}))
	require.NoError(t, checkMode(Spec{}, use{"v", true, false}))
	mode = v1.PersistentVolumeFilesystem
	require.NoError(t, checkMode(block, use{"v", true, false}), "the mode is no longer Block")
}

func TestExclusiveVolumes(t *testing.T) {
	once := v1.ReadWriteOncePod
	for _, tc := range []struct {
		modes []v1.PersistentVolumeAccessMode
		want  bool
	}{
		{nil, false}, {[]v1.PersistentVolumeAccessMode{once}, true},
		{[]v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, false},
		{[]v1.PersistentVolumeAccessMode{once, v1.ReadWriteMany}, false},
	} {
		spec := Spec{PV: &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{AccessModes: tc.modes}}}
		assert.Equal(t, tc.want, spec.exclusive(), "%v", tc.modes)
	}
	assert.False(t, Spec{}.exclusive())
}

func TestFSUser(t *testing.T) {
	user := func(id int64) *v1.SecurityContext { return &v1.SecurityContext{RunAsUser: &id} }
	tests := []struct {
		name string
		pod  *int64
		all  []*v1.SecurityContext
		want int64 // 0 = none
	}{
		{"nobody says", nil, []*v1.SecurityContext{nil}, 0},
		{"the pod says", user(5).RunAsUser, []*v1.SecurityContext{nil, {}}, 5},
		{"all say", nil, []*v1.SecurityContext{user(7), user(7)}, 7},
		{"one does not", nil, []*v1.SecurityContext{user(7), nil}, 0},
		{"they differ", user(7).RunAsUser, []*v1.SecurityContext{user(7), user(8)}, 0},
		{"the container wins", user(1).RunAsUser, []*v1.SecurityContext{user(2)}, 2},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{SecurityContext: &v1.PodSecurityContext{RunAsUser: tc.pod}}}
			for _, sc := range tc.all {
				pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{SecurityContext: sc})
			}
			got := fsUser(pod)
			if tc.want == 0 {
				assert.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			assert.Equal(t, tc.want, *got)
		})
	}
}

// nameless is a plugin that cannot name its volumes.
type nameless struct{ inert }

func (nameless) VolumeID(Spec) (string, error) { return "", errors.New("no ID") }

type named struct {
	Plugin
	name string
}

func (n named) Name() string { return n.name }

// alive is a Pods in which no pod is gone.
type alive struct{}

func (alive) ShouldPodRuntimeBeRemoved(types.UID) bool        { return false }
func (alive) ShouldPodContainersBeTerminating(types.UID) bool { return false }

func TestNewNamesTheBadField(t *testing.T) {
	tests := []struct {
		want string
		edit func(*Options)
	}{
		{"Options.Root", func(o *Options) { o.Root = "relative" }},
		{"Options.Plugins[0] is nil", func(o *Options) { o.Plugins = []Plugin{nil} }},
		{"Options.Plugins[1]", func(o *Options) { o.Plugins = []Plugin{named{name: "a/b"}, named{name: "a/b"}} }},
		{"Options.Plugins[0]", func(o *Options) { o.Plugins = []Plugin{named{name: "unqualified"}} }},
		{"Options.Plugins[0]", func(o *Options) { o.Plugins = []Plugin{named{name: "a/../b"}} }},
		{"Options.Plugins[0]", func(o *Options) { o.Plugins = []Plugin{named{name: "../b"}} }},
		{"Options.Plugins[0]", func(o *Options) { o.Plugins = []Plugin{named{name: "a/b~c"}} }},
	}
	for _, tc := range tests {
		o := Options{Pods: alive{}, Root: "/root"}
		_, err := New(o)
		require.NoError(t, err)
		tc.edit(&o)
		_, err = New(o)
		require.ErrorContains(t, err, tc.want)
	}
}

// TestRecordsAreCompleteOrRefused changes each identifying part of a good record.
func TestRecordsAreCompleteOrRefused(t *testing.T) {
	p := Place{Root: "/r", PodUID: "uid", Plugin: "example.com/x", Inner: "v"}
	mount := map[string]any{"version": 1, "podUID": "uid", "plugin": "example.com/x", "inner": "v"}
	device := map[string]any{"version": 1, "volume": "example.com/x/id", "plugin": "example.com/x"}
	encode := func(record map[string]any, key string, value any) []byte {
		edited := maps.Clone(record)
		edited[key] = value
		data, err := json.Marshal(edited)
		require.NoError(t, err)
		return data
	}
	parseMount := func(data []byte) error {
		r, err := parseRecord(p, data)
		if err != nil {
			assert.Zero(t, r)
		}
		return err
	}
	parseDevice := func(data []byte) error {
		r, err := parseDeviceRecord(data)
		if err != nil {
			assert.Zero(t, r)
		}
		return err
	}
	require.NoError(t, parseMount(encode(mount, "block", true)))
	require.NoError(t, parseDevice(encode(device, "devicePath", "/dev/x")))
	for _, tc := range []struct {
		parse  func([]byte) error
		record map[string]any
		key    string
		value  any
		want   string
	}{
		{parseMount, mount, "version", 2, "mount record has version 2, want 1"},
		{parseMount, mount, "podUID", "other", `pod "other"`},
		{parseMount, mount, "plugin", "other/x", `plugin "other/x"`},
		{parseMount, mount, "inner", "w", `volume "w"`},
		{parseMount, mount, "block", "yes", "mount record: json: cannot unmarshal"},
		{parseDevice, device, "version", 2, "device record has version 2, want 1"},
		{parseDevice, device, "volume", "", "device record without a volume or plugin"},
		{parseDevice, device, "plugin", "", "device record without a volume or plugin"},
		{parseDevice, device, "devicePath", 1, "device record: json: cannot unmarshal"},
	} {
		err := tc.parse(encode(tc.record, tc.key, tc.value))
		require.ErrorContains(t, err, tc.want, "%s: %v", tc.key, tc.value)
	}
}

// FuzzRecord: a decoded record always belongs to the volume at its place, and decoding never
// panics.
func FuzzRecord(f *testing.F) {
	p := Place{Root: "/r", PodUID: "uid", Plugin: "example.com/x", Inner: "v"}
	f.Add([]byte(`{"version":1,"podUID":"uid","plugin":"example.com/x","inner":"v","outer":["v"],"spec":{"volume":{"name":"v"}}}`))
	f.Add([]byte(`{"version":1,"podUID":"..","plugin":"example.com/x","inner":"../../etc"}`))
	f.Add([]byte(`{"version":1,"volume":"a/b/c","plugin":"a/b","spec":{"pv":{"metadata":{"name":"x"}},"size":"1Gi"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := parseRecord(p, data); err == nil {
			require.Equal(t, p, Place{Root: p.Root, PodUID: r.PodUID, Plugin: r.Plugin, Inner: r.Inner})
		}
		if r, err := parseDeviceRecord(data); err == nil {
			require.NotEmpty(t, r.Volume)
			_ = deviceRecordName(v1.UniqueVolumeName(r.Volume))
		}
	})
}

func TestWordsForStates(t *testing.T) {
	assert.Equal(t, "uncertain", StateUncertain.String())
	assert.Equal(t, "gone", DesireGone.String())
	assert.Equal(t, "State(9)", State(9).String())
	assert.Equal(t, "volume_unmount", OpUnmount.String())
	text, err := json.Marshal([]any{StateMounted, DesireKept, OpExpand})
	require.NoError(t, err)
	assert.JSONEq(t, `["mounted", "kept", "volume_fs_resize"]`, string(text))
}
