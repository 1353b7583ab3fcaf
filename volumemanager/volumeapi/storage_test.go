// SPDX-License-Identifier: Apache-2.0

package volumeapi_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/internal/clienttest"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumeapi"
)

// followed is a collection of a fake server that can be down. The test sends the events of its
// watches.
type followed struct {
	*clienttest.Clients
	mu    sync.Mutex
	away  error
	items runtime.Object
	watch *watch.RaceFreeFakeWatcher
	lists int
}

func newFollowed(resource string, items runtime.Object) *followed {
	f := &followed{Clients: clienttest.New(), items: items}
	f.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.lists++
		return true, f.items, f.away
	})
	f.PrependWatchReactor(resource, func(clienttesting.Action) (bool, watch.Interface, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.watch = watch.NewRaceFreeFake()
		return true, f.watch, f.away
	})
	return f
}

func (f *followed) set(items runtime.Object, away error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.items, f.away = items, away
}

func (f *followed) listed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lists
}

// watching returns the last watch.
func (f *followed) watching() *watch.RaceFreeFakeWatcher {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watch
}

// run runs do until the end of the test's bubble.
func run(t *testing.T, do func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

func drivers(names ...string) *storagev1.CSIDriverList {
	l := &storagev1.CSIDriverList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	for _, name := range names {
		l.Items = append(l.Items, storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return l
}

func TestDriversAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowed("csidrivers", drivers("a"))
		f.set(nil, errors.New("away"))
		core, logs := observer.New(zap.InfoLevel)
		d, err := volumeapi.NewDrivers(volumeapi.DriversOptions{Client: volumeapi.FromStorage(f.StorageV1()), Logger: zap.New(core)})
		require.NoError(t, err)
		has := func(name string) bool { _, ok := d.Driver(name); return ok }
		stop := run(t, d.Run)
		require.ErrorIs(t, d.Run(t.Context()), volumeapi.ErrRunning)

		soon, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.ErrorIs(t, d.Await(soon), context.DeadlineExceeded)
		assert.False(t, has("a"))
		assert.Equal(t, 1, logs.Len(), "said once in an hour: %v", logs.All())
		assert.Less(t, f.listed(), 720, "and asked for every 10 to 20 s")

		f.set(drivers("a", "b"), nil)
		require.NoError(t, d.Await(t.Context()))
		synctest.Wait()
		assert.True(t, has("a") && has("b"))
		assert.Equal(t, 2, logs.Len())

		f.watching().Delete(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		f.watching().Add(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "c"}})
		synctest.Wait()
		assert.False(t, has("a"))
		assert.True(t, has("c"))

		f.set(drivers("d"), nil)
		f.watching().Error(&apierrors.NewResourceExpired("gone").ErrStatus)
		time.Sleep(4 * time.Second)
		assert.False(t, has("b"), "what went unseen is gone")
		assert.True(t, has("d"))

		lists := f.listed()
		time.Sleep(10 * time.Minute)
		assert.Equal(t, lists, f.listed(), "a watch that stands needs no list")
		stop()
		assert.True(t, has("d"), "what is known is given out")
	})
}

func nodes(items ...v1.Node) *v1.NodeList {
	return &v1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: items}
}

func nodeNamed(name string, inUse ...v1.UniqueVolumeName) v1.Node {
	return v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{VolumesInUse: inUse}}
}

func TestNodeTellsOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowed("nodes", nodes(nodeNamed("n", "a"), nodeNamed("m")))
		var seen [][]v1.UniqueVolumeName
		n, err := volumeapi.NewNode(volumeapi.NodeOptions{Client: volumeapi.FromCore(f.CoreV1()), NodeName: "n", Changed: func(n *v1.Node) {
			seen = append(seen, n.Status.VolumesInUse)
		}})
		require.NoError(t, err)
		stop := run(t, n.Run)
		assert.Equal(t, [][]v1.UniqueVolumeName{{"a"}}, seen, "not of other nodes")
		changed, other := nodeNamed("n", "b"), nodeNamed("m", "x")
		f.watching().Modify(&changed)
		f.watching().Modify(&other)
		f.watching().Delete(&changed)
		synctest.Wait()
		assert.Equal(t, [][]v1.UniqueVolumeName{{"a"}, {"b"}}, seen)
		stop()
		require.ErrorIs(t, n.Run(t.Context()), volumeapi.ErrRunning)
	})
}

func TestVolumesInUseAreReported(t *testing.T) {
	node := nodeNamed("n", "old")
	node.Annotations = map[string]string{"other": "stays"}
	clients := clienttest.New(&node)
	n, err := volumeapi.NewNode(volumeapi.NodeOptions{Client: volumeapi.FromCore(clients.CoreV1()), NodeName: "n"})
	require.NoError(t, err)
	got, err := n.ReportInUse(t.Context(), []v1.UniqueVolumeName{"a", "b"})
	require.NoError(t, err)
	assert.Equal(t, []v1.UniqueVolumeName{"a", "b"}, got)
	now, err := n.Get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"other": "stays", "volumes.kubernetes.io/controller-managed-attach-detach": "true"}, now.Annotations)
	got, err = n.ReportInUse(t.Context(), nil)
	require.NoError(t, err)
	assert.Empty(t, got)
	action := clients.Actions()[0].(clienttesting.PatchAction)
	assert.Equal(t, "status", action.GetSubresource(), "a node may not patch more")

	clients.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n", errors.New("no"))
	})
	_, err = n.ReportInUse(t.Context(), nil)
	var e *volumeapi.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, clientkit.Forbidden, e.Reason)
	assert.Equal(t, "patch", e.Verb)
}

func attachment(edit func(*storagev1.VolumeAttachment)) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: volumeapi.AttachmentName("d", "h", "n")},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: "d", NodeName: "n"},
		Status:     storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"lun": "3"}},
	}
	edit(a)
	return a
}

func csiVolume(driver, handle string) volumemanager.Spec {
	return volumemanager.Spec{PV: &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{
		CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}}}}}
}

func TestAttachmentName(t *testing.T) {
	// printf hdn | sha256sum
	assert.Equal(t, "csi-9072ed11cc1acb5fa433a877ff339b6311d013f33bddd1d0092711a8ace5b16d", volumeapi.AttachmentName("d", "h", "n"))
	assert.NotEqual(t, volumeapi.AttachmentName("d", "h", "n"), volumeapi.AttachmentName("h", "d", "n"))
}

func TestAttachment(t *testing.T) {
	now := metav1.Now()
	for _, tc := range []struct {
		name string
		edit func(*storagev1.VolumeAttachment)
		took time.Duration
		want string // "" = attached
	}{
		{"attached", func(*storagev1.VolumeAttachment) {}, 0, ""},
		{"not yet", func(a *storagev1.VolumeAttachment) { a.Status.Attached = false }, volumeapi.AttachPatience, "is not attached yet"},
		{"none", func(a *storagev1.VolumeAttachment) { a.Name = "other" }, volumeapi.AttachPatience, "there is none"},
		{"failed", func(a *storagev1.VolumeAttachment) {
			a.Status.Attached, a.Status.AttachError = false, &storagev1.VolumeError{Message: "disk\nis on fire"}
		}, 0, "disk is on fire"},
		{"of another node", func(a *storagev1.VolumeAttachment) { a.Spec.NodeName = "m" }, 0, `for node "m"`},
		{"going", func(a *storagev1.VolumeAttachment) { a.DeletionTimestamp, a.Finalizers = &now, []string{"x"} }, 0, "being deleted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clients := clienttest.New(attachment(tc.edit))
				a, err := volumeapi.NewAttachments(volumeapi.AttachmentsOptions{Client: volumeapi.FromStorage(clients.StorageV1()), NodeName: "n"})
				require.NoError(t, err)
				began := time.Now()
				context, err := a.Attachment(t.Context(), csiVolume("d", "h"))
				assert.Equal(t, tc.took, time.Since(began))
				if tc.want == "" {
					require.NoError(t, err)
					assert.Equal(t, map[string]string{"lun": "3"}, context)
					return
				}
				require.ErrorContains(t, err, tc.want)
				assert.Nil(t, context)
				assert.LessOrEqual(t, len(clients.Actions()), 12, "a look a second at most")
			})
		})
	}
}

func TestAttachmentThatFindsTheNodeFull(t *testing.T) {
	failed := func(code *int32) func(*storagev1.VolumeAttachment) {
		return func(a *storagev1.VolumeAttachment) {
			a.Status.Attached, a.Status.AttachError = false, &storagev1.VolumeError{Message: "no", ErrorCode: code}
		}
	}
	for name, tc := range map[string]struct {
		edit func(*storagev1.VolumeAttachment)
		want bool
	}{
		"full":           {failed(new(int32(8))), true},
		"another code":   {failed(new(int32(13))), false},
		"no code":        {failed(nil), false},
		"attached":       {func(*storagev1.VolumeAttachment) {}, false},
		"nobody's doing": {func(a *storagev1.VolumeAttachment) { a.Name = "other" }, false},
	} {
		clients := clienttest.New(attachment(tc.edit))
		a, err := volumeapi.NewAttachments(volumeapi.AttachmentsOptions{Client: volumeapi.FromStorage(clients.StorageV1()), NodeName: "n"})
		require.NoError(t, err)
		got, err := a.Exhausted(t.Context(), csiVolume("d", "h"))
		require.NoError(t, err, name)
		assert.Equal(t, tc.want, got, name)
	}
}

// The controller attaches the volume a little late.
func TestAttachmentIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := clienttest.New()
		a, err := volumeapi.NewAttachments(volumeapi.AttachmentsOptions{Client: volumeapi.FromStorage(clients.StorageV1()), NodeName: "n"})
		require.NoError(t, err)
		time.AfterFunc(time.Second, func() {
			_, err := clients.StorageV1().VolumeAttachments().Create(t.Context(), attachment(func(*storagev1.VolumeAttachment) {}), metav1.CreateOptions{})
			assert.NoError(t, err)
		})
		began := time.Now()
		context, err := a.Attachment(t.Context(), csiVolume("d", "h"))
		require.NoError(t, err)
		assert.Equal(t, "3", context["lun"])
		assert.LessOrEqual(t, time.Since(began), 2*time.Second)
	})
}

func TestStorageOptions(t *testing.T) {
	storage := clienttest.New().StorageV1()
	_, err := volumeapi.NewDrivers(volumeapi.DriversOptions{})
	require.ErrorContains(t, err, "DriversOptions.Client")
	_, err = volumeapi.NewAttachments(volumeapi.AttachmentsOptions{NodeName: "n"})
	require.ErrorContains(t, err, "AttachmentsOptions.Client")
	_, err = volumeapi.NewAttachments(volumeapi.AttachmentsOptions{Client: volumeapi.FromStorage(storage)})
	require.ErrorContains(t, err, "AttachmentsOptions.NodeName")
	a, err := volumeapi.NewAttachments(volumeapi.AttachmentsOptions{Client: volumeapi.FromStorage(storage), NodeName: "n"})
	require.NoError(t, err)
	_, err = a.Attachment(t.Context(), volumemanager.Spec{})
	require.ErrorContains(t, err, "no persistent CSI volume")
}
