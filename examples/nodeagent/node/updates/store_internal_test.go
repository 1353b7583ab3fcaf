// SPDX-License-Identifier: Apache-2.0

package updates

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func versionWith(t *testing.T, image string) (hash string, pods []*v1.Pod) {
	t.Helper()
	pods = []*v1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: image}}},
	}}
	hash, err := hashOf(pods)
	require.NoError(t, err)
	return hash, pods
}

func TestHash(t *testing.T) {
	hash, pods := versionWith(t, "web:1")
	pods[0].UID, pods[0].ResourceVersion, pods[0].Generation = "2", "3", 4
	pods[0].Annotations = map[string]string{AnnotationHold: "true", "kubernetes.io/config.hash": "5"}
	same, err := hashOf(pods)
	require.NoError(t, err)
	assert.Equal(t, hash, same, "a number of the source is no other version")
	pods[0].Labels = map[string]string{"a": "b"}
	other, err := hashOf(pods)
	require.NoError(t, err)
	assert.NotEqual(t, hash, other)
}

// TestStore damages the files of a unit with a good and a next version.
func TestStore(t *testing.T) {
	a, old := versionWith(t, "web:1")
	b, fresh := versionWith(t, "web:2")
	all := versions{{a, old}, {b, fresh}}
	id := idOf("file", old[0])
	record := Record{Phase: Staging, Good: a, Next: b, History: []Entry{{Hash: a, Reason: EventSucceeded}}}
	for name, c := range map[string]struct {
		damage func(dir string) error
		want   Record // phase, good and next
		lost   bool
		none   bool
	}{
		"nothing":          {func(string) error { return nil }, record, false, false},
		"a temporary file": {func(dir string) error { return os.WriteFile(dir+"/state.json.tmp", []byte("{"), 0o600) }, record, false, false},
		"an empty record":  {func(dir string) error { return os.Truncate(dir+"/state.json", 0) }, Record{Phase: Proving, Good: a, Next: b}, true, false},
		"half a record":    {func(dir string) error { return os.Truncate(dir+"/state.json", 40) }, Record{Phase: Proving, Good: a, Next: b}, true, false},
		"no record":        {func(dir string) error { return os.Remove(dir + "/state.json") }, Record{Phase: Proving, Good: a, Next: b}, true, false},
		"a folder as record": {func(dir string) error {
			_ = os.Remove(dir + "/state.json")
			return os.MkdirAll(dir+"/state.json/x", 0o700)
		}, Record{Phase: Proving, Good: a, Next: b}, true, false},
		"no good version": {func(dir string) error { return os.Truncate(dir+"/versions/"+a+".json", 9) }, Record{Phase: Proving, Next: b}, true, false},
		"another version in the place of the good one": {func(dir string) error {
			return os.Rename(dir+"/versions/"+b+".json", dir+"/versions/"+a+".json")
		}, Record{}, false, true},
		"a record of a newer agent": {func(dir string) error {
			return os.WriteFile(dir+"/state.json", []byte(`{"format":2,"unit":{"source":"file","namespace":"default","name":"web"},"phase":"Moonwalking","good":"`+a+`"}`), 0o600)
		}, Record{Phase: "Moonwalking", Good: a}, false, false},
		"the unit is half removed": {func(dir string) error { return os.Rename(dir, filepath.Join(filepath.Dir(dir), removedDir+"x")) }, Record{}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := openStore(t.TempDir())
			require.NoError(t, err)
			defer s.close()
			first := Record{Phase: Proving, Next: a}
			require.NoError(t, s.save(id, &first, all))
			folder := filepath.Join(s.dir.Name(), id.folder())
			require.NoError(t, os.Chtimes(folder+"/versions/"+a+".json", start, start))
			require.NoError(t, s.save(id, &record, all))
			info, err := os.Stat(folder + "/state.json")
			require.NoError(t, err)
			assert.Equal(t, os.FileMode(0o600), info.Mode())
			require.NoError(t, c.damage(folder))
			units, errs := s.load()
			assert.Empty(t, errs)
			if c.none {
				assert.Empty(t, units)
				return
			}
			require.Len(t, units, 1)
			u := units[0]
			assert.Equal(t, c.want.Phase, u.Phase)
			assert.Equal(t, c.want.Good, u.Good)
			assert.Equal(t, c.want.Next, u.Next)
			assert.Equal(t, c.lost, u.lost != nil)
			assert.Equal(t, id, u.Unit)
			for _, hash := range u.Pinned() {
				assert.NotNil(t, u.versions.of(hash), "a version that may run can be read")
			}
		})
	}
}

func TestStoreForgetsVersions(t *testing.T) {
	a, old := versionWith(t, "web:1")
	b, fresh := versionWith(t, "web:2")
	s, err := openStore(t.TempDir())
	require.NoError(t, err)
	defer s.close()
	id, all := idOf("file", old[0]), versions{{a, old}, {b, fresh}}
	require.NoError(t, s.save(id, &Record{Phase: Staging, Good: a, Next: b}, all))
	require.NoError(t, s.save(id, &Record{Phase: Steady, Good: b}, all))
	units, _ := s.load()
	require.Len(t, units, 1)
	assert.Len(t, units[0].versions, 1)
	require.NoError(t, s.remove(id))
	require.NoError(t, s.remove(id))
	units, _ = s.load()
	assert.Empty(t, units)
}

func TestGate(t *testing.T) {
	status := func(ready v1.ConditionStatus, restarts int32, waiting string) *v1.PodStatus {
		c := v1.ContainerStatus{Name: "c", RestartCount: restarts}
		if waiting != "" {
			c.State.Waiting = &v1.ContainerStateWaiting{Reason: waiting}
		}
		return &v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: ready}}, ContainerStatuses: []v1.ContainerStatus{c}}
	}
	type step struct {
		at     time.Duration
		status *v1.PodStatus
	}
	for name, c := range map[string]struct {
		steps []step
		at    time.Duration
		want  string // "passed", "failed REASON" or ""
	}{
		"no status":                 {nil, time.Hour, ""},
		"ready for long enough":     {[]step{{0, status("True", 0, "")}}, 10 * time.Second, "passed"},
		"ready for a moment less":   {[]step{{0, status("True", 0, "")}}, 10*time.Second - 1, ""},
		"not ready in between":      {[]step{{0, status("True", 0, "")}, {9 * time.Second, status("False", 0, "")}, {9 * time.Second, status("True", 0, "")}}, 18 * time.Second, ""},
		"a restart":                 {[]step{{0, status("True", 0, "")}, {time.Second, status("False", 1, "")}}, time.Second, "failed Restarted"},
		"restarts of the past":      {[]step{{0, status("True", 7, "")}}, 10 * time.Second, "passed"},
		"an error that stays":       {[]step{{0, status("False", 0, "RunContainerError")}}, 10 * time.Second, "failed RunContainerError"},
		"an error for a moment":     {[]step{{0, status("False", 0, "RunContainerError")}, {9 * time.Second, status("False", 0, "")}}, 20 * time.Second, ""},
		"a pull takes time":         {[]step{{0, status("False", 0, "ErrImagePull")}}, time.Hour, ""},
		"the node refuses the pod":  {[]step{{0, &v1.PodStatus{Phase: v1.PodFailed, Reason: "OutOfcpu"}}}, 0, "failed OutOfcpu"},
		"the agent ends":            {[]step{{0, &v1.PodStatus{Phase: v1.PodFailed, Reason: "Terminated"}}}, time.Hour, ""},
		"the pod has done its work": {[]step{{0, &v1.PodStatus{Phase: v1.PodSucceeded}}}, 0, "passed"},
	} {
		t.Run(name, func(t *testing.T) {
			var h PodHealth
			for _, s := range c.steps {
				h = h.Observe(s.status, start.Add(s.at))
			}
			got := ""
			switch j := (Gate{}).Judge(h, start.Add(c.at)); {
			case j.Passed:
				got = "passed"
			case j.Failed != "":
				got = "failed " + j.Failed
			}
			assert.Equal(t, c.want, got)
		})
	}
}
