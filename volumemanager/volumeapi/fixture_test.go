// SPDX-License-Identifier: Apache-2.0

package volumeapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/volumeapi"
)

// password must never be in an error.
const password = "hunter2"

func cmRef(name string) objects.Ref {
	return objects.Ref{Kind: objects.ConfigMap, Namespace: "ns", Name: name}
}

func secretRef(name string) objects.Ref {
	return objects.Ref{Kind: objects.Secret, Namespace: "ns", Name: name}
}

func configMap(name, value string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{"k": value, "p": password}}
}

func secretOf(name, value string) *v1.Secret {
	return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string][]byte{"k": []byte(value), "p": []byte(password)}}
}

func immutable(cm *v1.ConfigMap) *v1.ConfigMap {
	cm.Immutable = new(true)
	return cm
}

// pod returns a pod with volumes of ConfigMaps; its name is its UID.
func pod(name string, configMaps ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name)}}
	for _, cm := range configMaps {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: cm, VolumeSource: v1.VolumeSource{
			ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: cm}}}})
	}
	return p
}

func withSecret(p *v1.Pod, name string) *v1.Pod {
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
		Secret: &v1.SecretVolumeSource{SecretName: name}}})
	return p
}

// fixture is a server, and an Objects that reads from the server with a real client.
type fixture struct {
	*testing.T
	*server
	*volumeapi.Objects
	stop func()

	mu      sync.Mutex
	changes []string
	told    []string
}

// bubble runs a test in virtual time, with a running Objects.
func bubble(t *testing.T, test func(*fixture), edit ...func(*volumeapi.ObjectsOptions)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, edit...)
		f.run()
		test(f)
		f.stop()
		synctest.Wait()
		require.Zero(t, f.openWatches(), "a watch outlives Run")
	})
}

func client(t testing.TB, s *server) *corev1.CoreV1Client {
	transport := &http.Transport{DialContext: s.dial}
	t.Cleanup(transport.CloseIdleConnections)
	core, err := corev1.NewForConfigAndClient(&rest.Config{Host: "http://api.example", QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, &http.Client{Transport: transport})
	require.NoError(t, err)
	return core
}

// newFixture must be called in a bubble.
func newFixture(t *testing.T, edit ...func(*volumeapi.ObjectsOptions)) *fixture {
	f := &fixture{T: t, server: newServer(t)}
	options := volumeapi.ObjectsOptions{Client: volumeapi.FromCore(client(t, f.server)), Changed: f.changedTo, Logger: logger(f.problem)}
	for _, e := range edit {
		e(&options)
	}
	var err error
	f.Objects, err = volumeapi.NewObjects(options)
	require.NoError(t, err)
	return f
}

// run starts the Objects and waits until its goroutines are idle.
func (f *fixture) run() {
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan error, 1)
	go func() { done <- f.Objects.Run(ctx) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(f, <-done)
	})
	synctest.Wait()
}

// changedTo records a change, as "a=1", with the content that a caller would get then.
func (f *fixture) changedTo(ref objects.Ref) {
	text := ref.Name + "=" + f.look(ref)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = append(f.changes, text)
}

// changed returns the changes since the last call.
func (f *fixture) changed() []string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.changes
	f.changes = nil
	return c
}

func (f *fixture) problem(err error) {
	text := "ok"
	if e, ok := errors.AsType[*volumeapi.Error](err); ok {
		text = strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Verb, e.Reason, e.Ref.Name))
		f.harmless(err)
	} else if err != nil {
		f.Errorf("%T", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, text)
}

// problems returns the problems reported since the last call.
func (f *fixture) problems() []string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.told
	f.told = nil
	return t
}

// harmless fails the test if an error contains content of an object, or has several lines.
func (f *fixture) harmless(err error) {
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "\n") {
			f.Errorf("tells too much: %v", err)
		}
	}
}

// look returns the value of an object, "none" if it does not exist, or "Reason?" if its state is
// not known.
func (f *fixture) look(ref objects.Ref) string {
	var value string
	var err error
	if ref.Kind == objects.Secret {
		var s *v1.Secret
		if s, err = f.Secret(f.Context(), ref.Namespace, ref.Name); err == nil {
			value = string(s.Data["k"])
		}
	} else {
		var cm *v1.ConfigMap
		if cm, err = f.ConfigMap(f.Context(), ref.Namespace, ref.Name); err == nil {
			value = cm.Data["k"]
		}
	}
	switch e, ok := errors.AsType[*volumeapi.Error](err); {
	case err == nil:
		return value
	case apierrors.IsNotFound(err):
		return "none"
	case ok:
		f.harmless(err)
		return string(e.Reason) + "?"
	}
	return err.Error()
}

// pass lets time pass.
func (f *fixture) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// phase returns the phase of an object; "" for an unknown object.
func (f *fixture) phase(ref objects.Ref) string { return string(f.Snapshot()[ref].Phase) }

// logger returns a logger that passes on the error of each entry at level warn, and nil for each
// entry at level info.
func logger(tell func(error)) *zap.Logger {
	return zap.New(&errorCore{zapcore.InfoLevel, tell})
}

type errorCore struct {
	zapcore.LevelEnabler
	tell func(error)
}

func (c *errorCore) With([]zapcore.Field) zapcore.Core { return c }

func (c *errorCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return checked.AddCore(e, c)
}

func (c *errorCore) Write(_ zapcore.Entry, fields []zapcore.Field) error {
	var told error
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok {
			told = err
		}
	}
	c.tell(told)
	return nil
}

func (c *errorCore) Sync() error { return nil }
