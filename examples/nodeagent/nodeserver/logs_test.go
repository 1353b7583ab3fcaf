// SPDX-License-Identifier: Apache-2.0

package nodeserver_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
	"github.com/keelson-dev/keelson/runtime"
)

// logged is a runtime with the logs of one pod's containers: main with a previous instance, and
// others in the states that have no log.
type logged struct {
	runtime.Runtime
	pod     *v1.Pod
	folder  string
	stopped atomic.Bool // of main
}

func newLogged(t *testing.T) *logged {
	l := &logged{folder: t.TempDir(), pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}}
	ended := func(id string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: id}}
	}
	waiting := func(reason string) v1.ContainerState {
		return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
	}
	l.pod.Status.ContainerStatuses = []v1.ContainerStatus{
		{Name: "main", ContainerID: "test://2", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}, LastTerminationState: ended("test://1")},
		{Name: "pull", State: waiting("ErrImagePull")},
		{Name: "back", State: waiting("ImagePullBackOff")},
		{Name: "making", State: waiting("ContainerCreating")},
		{Name: "crashing", State: waiting("CrashLoopBackOff"), LastTerminationState: ended("test://1")},
		{Name: "lost", State: ended("")},
		{Name: "removed", State: ended("test://3")},
	}
	for _, c := range l.pod.Status.ContainerStatuses {
		l.pod.Spec.Containers = append(l.pod.Spec.Containers, v1.Container{Name: c.Name})
	}
	l.pod.Spec.InitContainers = []v1.Container{{Name: "init"}}
	l.write(t, "1", "2026-01-01T00:00:00.000000001Z stdout F before\n")
	l.write(t, "2", "2026-01-01T00:00:01.000000001Z stdout F one\n"+
		"2026-01-01T00:00:02.000000001Z stderr F two\n"+
		"2026-01-01T00:00:03.000000001Z stdout F three\n")
	return l
}

func (l *logged) path(id string) string { return filepath.Join(l.folder, id+".log") }

func (l *logged) write(t *testing.T, id, text string) {
	f, err := os.OpenFile(l.path(id), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func (l *logged) find(namespace, name string) *v1.Pod {
	if namespace != "ns" || name != "web" {
		return nil
	}
	return l.pod
}

// PodStatus implements runtime.Runtime.
func (l *logged) PodStatus(context.Context, types.UID) (*runtime.PodStatus, error) {
	status := &runtime.PodStatus{Containers: []runtime.ContainerStatus{
		{ID: runtime.ContainerID{Runtime: "test", ID: "2"}, State: runtime.StateRunning, LogPath: l.path("2")},
		{ID: runtime.ContainerID{Runtime: "test", ID: "1"}, State: runtime.StateExited, LogPath: l.path("1")},
	}}
	if l.stopped.Load() {
		status.Containers[0].State = runtime.StateExited
	}
	return status, nil
}

func (l *logged) group() nodeserver.Group {
	return nodeserver.Logs(nodeserver.LogOptions{Pods: l.find, Runtime: l})
}

func TestLogs(t *testing.T) {
	l := newLogged(t)
	s := newServer(t, l.group())
	const all = "one\ntwo\nthree\n"
	for target, want := range map[string]struct {
		code int
		text string
	}{
		"main":                                {200, all},
		"main?previous=true":                  {200, "before\n"},
		"main?previous=0&follow=false":        {200, all},
		"main?tailLines=1":                    {200, "three\n"},
		"main?tailLines=0":                    {200, ""},
		"main?tail=2":                         {200, "two\nthree\n"},
		"main?tail=all&tailLines=1":           {200, all},
		"main?limitBytes=5":                   {200, "one\nt"},
		"main?sinceTime=2026-01-01T00:00:03Z": {200, "three\n"},
		"main?sinceSeconds=1":                 {200, ""},
		"main?timestamps&tailLines=1":         {200, "2026-01-01T00:00:03.000000001Z three\n"},
		"main?stream=All":                     {200, all},
		"main?stream=Stdout":                  {200, "one\nthree\n"},
		"main?stream=Stderr":                  {200, "two\n"},
		"main?stream=Stdout&tailLines=1":      {200, "three\n"},
		"main?stream=Stdout&limitBytes=6":     {200, "one\nth"},
		"crashing":                            {200, "before\n"},

		"main?tailLines=a":         {400, `{"message": "Unable to decode query."}`},
		"main?sinceTime=yesterday": {400, `{"message": "Unable to decode query."}`},
		"main?limitBytes=":         {400, `{"message": "Unable to decode query."}`},
		"main?tail=-1":             {422, `{"message": "Invalid request."}`},
		"main?tailLines=-1":        {422, `{"message": "Invalid request."}`},
		"main?limitBytes=0":        {422, `{"message": "Invalid request."}`},
		"main?sinceSeconds=0":      {422, `{"message": "Invalid request."}`},
		"main?stream=invalid":      {422, `{"message": "Invalid request."}`},
		"other":                    {404, `container "other" not found in pod "web"`},
		"pull":                     {400, `container "pull" in pod "web" is waiting to start: image can't be pulled`},
		"back":                     {400, `container "back" in pod "web" is waiting to start: trying and failing to pull image`},
		"making":                   {400, `container "making" in pod "web" is waiting to start: ContainerCreating`},
		"making?previous=true":     {400, `previous terminated container "making" in pod "web" not found`},
		"lost":                     {400, `container "lost" in pod "web" is terminated`},
		"init":                     {400, `container "init" in pod "web" is not available`},
		"removed":                  {400, "unable to retrieve container logs for test://3: the container was removed"},
		"main?sinceSeconds=1&sinceTime=2026-01-01T00:00:03Z": {422, `{"message": "Invalid request."}`},
	} {
		code, text := ask(t, s, "GET", "/containerLogs/ns/web/"+target)
		assert.Equal(t, want.code, code, target)
		assert.Equal(t, want.text, text, target)
	}
	code, text := ask(t, s, "GET", "/containerLogs/ns/other/main")
	assert.Equal(t, 404, code)
	assert.Equal(t, `pod "other" does not exist`, text)
	code, _ = ask(t, s, "POST", "/containerLogs/ns/web/main")
	assert.Equal(t, 405, code)
}

// An answer with follow begins at once, has each line when it is written, and ends with the
// container.
func TestFollowedLogs(t *testing.T) {
	l := newLogged(t)
	s := httptest.NewServer(newServer(t, l.group()))
	defer s.Close()
	response, err := http.Get(s.URL + "/containerLogs/ns/web/main?follow=true&tailLines=1&stream=Stderr")
	require.NoError(t, err, "before a new line is written")
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	next := func() string {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		return line
	}
	assert.Equal(t, "two\n", next())
	l.write(t, "2", "2026-01-01T00:00:04.000000001Z stderr F four\n")
	assert.Equal(t, "four\n", next())
	l.write(t, "2", "2026-01-01T00:00:05.000000001Z stderr F five\n")
	l.stopped.Store(true)
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	assert.Equal(t, "five\n", string(rest))
}

// The client learns that a log was not read to its end.
func TestLogThatCannotBeRead(t *testing.T) {
	l := newLogged(t)
	require.NoError(t, os.Remove(l.path("2")))
	require.NoError(t, os.Mkdir(l.path("2"), 0o700))
	s := httptest.NewServer(newServer(t, l.group()))
	defer s.Close()
	response, err := http.Get(s.URL + "/containerLogs/ns/web/main")
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.Error(t, err)
	assert.NotContains(t, string(text), l.folder)
}

// Clients that leave and a client that never reads end the reading, also over HTTP/2. There, the
// server panics if a handler sets a deadline after its return.
func TestFollowersThatLeave(t *testing.T) {
	l := newLogged(t)
	l.write(t, "2", strings.Repeat("2026-01-01T00:00:04.000000001Z stdout F "+strings.Repeat("x", 1000)+"\n", 10_000))
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		h := newServer(t, l.group())
		s := httptest.NewUnstartedServer(h)
		s.EnableHTTP2 = version == "HTTP/2.0"
		s.StartTLS()
		defer s.Close()
		get := func(ctx context.Context) *http.Response {
			request, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/containerLogs/ns/web/main?follow=true", nil)
			require.NoError(t, err)
			response, err := s.Client().Do(request)
			require.NoError(t, err)
			require.Equal(t, version, response.Proto)
			t.Cleanup(func() { response.Body.Close() })
			return response
		}
		for range 50 {
			ctx, leave := context.WithCancel(t.Context())
			get(ctx)
			leave()
		}
		get(t.Context()) // and read nothing
		h.Close()        // returns when every request has ended
	}
}
