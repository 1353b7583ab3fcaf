// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/kinds"
)

// memory keeps objects and pods, as a node does.
type memory struct {
	mu      sync.Mutex
	objects map[string]string
	pods    map[types.UID]*v1.Pod
}

func (m *memory) SetConfigMap(c *v1.ConfigMap) {
	m.set("configmap "+c.Namespace+"/"+c.Name, c.Data["a"])
}
func (m *memory) SetSecret(s *v1.Secret) {
	m.set("secret "+s.Namespace+"/"+s.Name, string(s.Data["a"]))
}
func (m *memory) DeleteConfigMap(ns, name string) { m.remove("configmap " + ns + "/" + name) }
func (m *memory) DeleteSecret(ns, name string)    { m.remove("secret " + ns + "/" + name) }
func (m *memory) set(key, value string)           { m.mu.Lock(); defer m.mu.Unlock(); m.objects[key] = value }
func (m *memory) remove(key string)               { m.mu.Lock(); defer m.mu.Unlock(); delete(m.objects, key) }

func (m *memory) Submit(_ context.Context, c podconfig.Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.Kind() == podconfig.ChangeSnapshot {
		clear(m.pods)
	}
	for _, uid := range c.UIDs() {
		delete(m.pods, uid)
	}
	for _, pod := range c.Pods() {
		for uid, old := range m.pods {
			if old.Name == pod.Name && old.Namespace == pod.Namespace {
				delete(m.pods, uid)
			}
		}
		m.pods[pod.UID] = pod
	}
	return nil
}

func (m *memory) names() (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, pod := range m.pods {
		all = append(all, pod.Name+string(pod.Status.Phase))
	}
	slices.Sort(all)
	return all
}

func (m *memory) pod(name string) *v1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, pod := range m.pods {
		if pod.Name == name {
			return pod
		}
	}
	return nil
}

// station is a node with a Controller over a source whose manifest can be changed.
type station struct {
	*testing.T
	*memory
	dir     string
	source  chan podconfig.Change
	c       *kinds.Controller
	stop    context.CancelFunc
	ended   chan error
	earlier []*v1.Pod
}

func newStation(t *testing.T) *station {
	s := &station{T: t, dir: t.TempDir()}
	s.start()
	return s
}

func (s *station) start() {
	s.Helper()
	s.memory = &memory{objects: map[string]string{}, pods: map[types.UID]*v1.Pod{}}
	c, err := kinds.New(kinds.Options{Dir: filepath.Join(s.dir, "kinds"), Objects: s, Earliest: time.Unix(1, 0), Address: "127.0.0.1"})
	require.NoError(s, err)
	s.c, s.source, s.ended, s.earlier = c, make(chan podconfig.Change), make(chan error, 1), nil
	ctx, stop := context.WithCancel(s.Context())
	s.stop = stop
	inner := podconfig.SourceFunc("file", func(ctx context.Context, out podconfig.Sink) error {
		for {
			select {
			case c := <-s.source:
				if err := out.Submit(ctx, c); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	})
	go func() { s.ended <- s.c.Source(inner).Run(ctx, s) }()
}

// restart ends the Controller and starts another.
func (s *station) restart() {
	s.end()
	s.start()
}

func (s *station) end() {
	s.stop()
	require.NoError(s, <-s.ended)
}

// write replaces the manifest, first with a Snapshot and then with the differences.
func (s *station) write(text string) {
	s.Helper()
	x := expander()
	x.Decoder.Policy = func(*v1.Pod) error { return nil }
	pods, err := x.Pods([]byte(text), origin)
	require.NoError(s, err)
	if s.earlier == nil {
		s.source <- podconfig.Snapshot(pods...)
	} else {
		var gone []types.UID
		for _, old := range s.earlier {
			if !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return p.UID == old.UID || p.Name == old.Name && p.Namespace == old.Namespace }) {
				gone = append(gone, old.UID)
			}
		}
		s.source <- podconfig.Remove(gone...)
		s.source <- podconfig.Upsert(pods...)
	}
	s.earlier = append([]*v1.Pod{}, pods...)
	synctest.Wait()
}

// ends tells the end of a pod.
func (s *station) ends(name string, phase v1.PodPhase) {
	s.Helper()
	pod := s.pod(name)
	require.NotNil(s, pod, name)
	s.c.Observe(pod, v1.PodStatus{Phase: phase})
	synctest.Wait()
}

const threeTimes = batch + "kind: Job\nspec: {completions: 3, parallelism: 2, " + jobPods + "}"

func TestAJobRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStation(t)
		s.write(threeTimes)
		require.Equal(t, []string{"pi-0-nPending", "pi-1-nPending"}, s.names())
		s.ends("pi-0-n", v1.PodSucceeded)
		require.Equal(t, []string{"pi-0-nPending", "pi-1-nPending", "pi-2-nPending"}, s.names())
		s.ends("pi-1-n", v1.PodFailed)
		require.Len(t, s.names(), 3, "a pause of 10 s")
		time.Sleep(11 * time.Second)
		synctest.Wait()
		require.Len(t, s.names(), 4)

		s.restart()
		s.write(threeTimes)
		require.Equal(t, []string{"pi-0-nSucceeded", "pi-1-nFailed", "pi-2-nPending", "pi-3-nPending"}, s.names(), "no pod that has ended runs again")
		s.ends("pi-2-n", v1.PodSucceeded)
		s.ends("pi-3-n", v1.PodSucceeded)
		s.restart()
		s.write(threeTimes)
		require.Equal(t, []string{"pi-0-nSucceeded", "pi-1-nFailed", "pi-2-nSucceeded", "pi-3-nSucceeded"}, s.names(), "the Job has finished")

		s.write(core + "kind: ConfigMap\n")
		require.Empty(t, s.names())
		s.write(threeTimes)
		require.Equal(t, []string{"pi-0-nPending", "pi-1-nPending"}, s.names(), "a new manifest is a new Job")
		s.write(strings.Replace(threeTimes, "image: i", "image: j", 1))
		require.Equal(t, []string{"pi-0-nPending", "pi-1-nPending"}, s.names(), "a new template is a new Job")
		require.Equal(t, "j", s.pod("pi-0-n").Spec.Containers[0].Image)
		s.end()
	})
}

func TestACronJobRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStation(t)
		const text = batch + "kind: CronJob\nspec: {schedule: '*/10 * * * *', timeZone: UTC, concurrencyPolicy: Forbid, successfulJobsHistoryLimit: 1, jobTemplate: {spec: {" + jobPods + "}}}"
		s.write(text)
		require.Empty(t, s.names())
		time.Sleep(10*time.Minute + time.Second) // the bubble begins at midnight
		synctest.Wait()
		require.Len(t, s.names(), 1)
		first := strings.TrimSuffix(s.names()[0], "Pending")
		s.restart()
		s.write(text)
		require.Equal(t, []string{first + "Pending"}, s.names(), "the same pod after a restart")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Len(t, s.names(), 1, "the first runs")
		s.ends(first, v1.PodSucceeded)
		time.Sleep(clockPause)
		synctest.Wait()
		require.Len(t, s.names(), 2, "the Job that waited")
		s.write(core + "kind: ConfigMap\n")
		require.Empty(t, s.names())
		s.end()
	})
}

// clockPause is longer than the time between two looks at the clock.
const clockPause = time.Minute + time.Second

// As long as the clock is before a recorded time, no Job starts.
func TestCronJobsWaitForTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStation(t)
		const text = batch + "kind: CronJob\nspec: {schedule: '* * * * *', jobTemplate: {spec: {" + jobPods + "}}}"
		s.end()
		future := time.Now().Add(time.Hour).Format(time.RFC3339)
		record := `{"jobs":{},"crons":{"default/pi":{"created":"` + future + `"}}}`
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, "kinds", "file.json"), []byte(record), 0o600))
		s.start()
		s.write(text)
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		require.Empty(t, s.names())
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		require.NotEmpty(t, s.names())
		s.end()
	})
}

func TestObjectsAndServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStation(t)
		const service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: db}\nspec: {selector: {app: db}, ports: [{port: 5432}]}\n"
		const pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: db, labels: {app: db}}\nspec: {hostNetwork: true, containers: [{name: c, image: i}]}\n"
		s.write(core + "kind: ConfigMap\ndata: {a: one}\n---\n" + core + "kind: Secret\nstringData: {a: two}\n" + service + pod +
			"---\n" + core + "kind: PersistentVolumeClaim\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n")
		require.Equal(t, map[string]string{"configmap default/x": "one", "secret default/x": "two"}, maps.Clone(s.objects))
		require.Equal(t, []string{"db-nPending"}, s.names())
		require.NotNil(t, s.c.Claim("default", "x"))
		require.Nil(t, s.c.Claim("other", "x"))

		web := &v1.Pod{}
		web.Namespace = "default"
		found, err := s.c.Services(t.Context(), web)
		require.NoError(t, err)
		require.Empty(t, found, "no pod of the Service runs")
		s.c.Observe(s.pod("db-n"), v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.7", HostIP: "10.0.0.7"})
		found, _ = s.c.Services(t.Context(), web)
		require.Len(t, found, 1)
		assert.Equal(t, "127.0.0.1", found[0].Spec.ClusterIP)
		assert.Equal(t, []v1.HostAlias{{IP: "127.0.0.1", Hostnames: []string{"db", "db.default", "db.default.svc", "db.default.svc.cluster.local"}}}, s.c.HostAliases(web))
		s.c.Housekeep(func(types.UID) bool { return false })
		require.Empty(t, s.c.HostAliases(web))

		s.write(core + "kind: ConfigMap\ndata: {a: other}\n")
		require.Equal(t, map[string]string{"configmap default/x": "other"}, maps.Clone(s.objects))
		require.Empty(t, s.names())
		require.Nil(t, s.c.Claim("default", "x"))
		s.end()
	})
}

func TestOptions(t *testing.T) {
	_, err := kinds.New(kinds.Options{Dir: "kinds"})
	require.ErrorContains(t, err, "Options.Dir")
	_, err = kinds.New(kinds.Options{Dir: "/kinds"})
	require.ErrorContains(t, err, "Options.Objects")
	_, err = (&kinds.Expander{}).Expand(nil, origin)
	require.ErrorContains(t, err, "Decoder")
}
