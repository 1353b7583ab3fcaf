// SPDX-License-Identifier: Apache-2.0

package credentialplugin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/credentialplugin"
)

const version = "credentialprovider.kubelet.k8s.io/v1"

// shell is a folder with plug-ins that are shell scripts.
type shell struct {
	testing.TB
	dir       string
	providers []credentialplugin.Provider

	mu   sync.Mutex
	errs []error // of Options.Ran, nil ones included
}

func newShell(t testing.TB) *shell { return &shell{TB: t, dir: t.TempDir()} }

// add adds a plug-in. Each run appends a line with the request to NAME.runs.
func (s *shell) add(name, script string, match ...string) {
	s.Helper()
	text := fmt.Sprintf("#!/bin/sh\nread -r request; echo \"$request\" >> %s\n%s\n", s.runsOf(name), script)
	require.NoError(s, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o755))
	s.providers = append(s.providers, credentialplugin.Provider{Name: name, APIVersion: version, MatchImages: match})
}

func (s *shell) runsOf(name string) string { return filepath.Join(s.dir, name+".runs") }

// runs returns the requests to a plug-in. A file that has no whole line yet has none.
func (s *shell) runs(name string) []string {
	s.Helper()
	text, err := os.ReadFile(s.runsOf(name))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(s, err)
	lines := strings.Split(string(text), "\n")
	return lines[:len(lines)-1]
}

func (s *shell) plugins() *credentialplugin.Plugins {
	s.Helper()
	p, err := credentialplugin.New(credentialplugin.Options{Dir: s.dir, Providers: s.providers, Ran: func(_ string, _ time.Duration, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.errs = append(s.errs, err)
	}})
	require.NoError(s, err)
	require.NoError(s, p.Check())
	return p
}

func (s *shell) find(p *credentialplugin.Plugins, image string) (users []string) {
	s.Helper()
	auths, err := p.Find(context.Background(), nil, image)
	require.NoError(s, err)
	for _, a := range auths {
		users = append(users, a.Username+":"+a.Password)
	}
	return users
}

// answer returns the script that prints an answer with the given fields.
func answer(fields string) string {
	return `cat <<'X'
{"kind": "CredentialProviderResponse", "apiVersion": "` + version + `", ` + fields + `}
X`
}

func auth(registry string) string {
	return `"auth": {"` + registry + `": {"username": "u", "password": "p"}}`
}

func TestAPlugInIsAskedAsByTheKubelet(t *testing.T) {
	s := newShell(t)
	s.add("ecr", `[ "$1 $2" = "get credentials" ] && [ "$PROFILE" = x ] && [ -n "$PATH" ] || exit 1
`+answer(`"cacheKeyType": "Registry", "cacheDuration": "6h", "auth": {
		"*.dkr.ecr.example": {"username": "star", "password": "1"},
		"7.dkr.ecr.example/team": {"username": "team", "password": "2"},
		"7.dkr.ecr.example/other": {"username": "other", "password": "3"},
		"another.example": {"username": "another", "password": "4"}}`), "*.dkr.ecr.example")
	s.providers[0].Args, s.providers[0].Env = []string{"get", "credentials"}, []string{"PROFILE=x"}
	s.add("hub", answer(`"cacheKeyType": "Image", `+auth("docker.io")), "docker.io")
	p := s.plugins()

	require.Equal(t, []string{"team:2", "star:1"}, s.find(p, "7.dkr.ecr.example/team/app:1"), "the closest first")
	require.Len(t, s.runs("ecr"), 1)
	require.JSONEq(t, `{"kind": "CredentialProviderRequest", "apiVersion": "`+version+`", "image": "7.dkr.ecr.example/team/app"}`, s.runs("ecr")[0])
	require.Empty(t, s.runs("hub"), "it is for other images")
	require.Equal(t, []string{"u:p"}, s.find(p, "busybox@sha256:01"))
	require.Contains(t, s.runs("hub")[0], `"docker.io/library/busybox"`)
	require.Nil(t, s.find(p, "other.example/app"))
	require.Equal(t, []error{nil, nil}, s.errs)
}

func TestAnswersAreKept(t *testing.T) {
	for name, tc := range map[string]struct {
		fields   string
		keep     time.Duration // by default
		image    string        // the second one
		wantRuns int
	}{
		"for the image":              {fields: `"cacheKeyType": "Image", "cacheDuration": "1h"`, image: "r.example/a:2", wantRuns: 1},
		"for no other image":         {fields: `"cacheKeyType": "Image", "cacheDuration": "1h"`, image: "r.example/b", wantRuns: 2},
		"for the registry":           {fields: `"cacheKeyType": "Registry", "cacheDuration": "1h"`, image: "r.example/b", wantRuns: 1},
		"for no other registry":      {fields: `"cacheKeyType": "Registry", "cacheDuration": "1h"`, image: "s.example/a", wantRuns: 2},
		"for all":                    {fields: `"cacheKeyType": "Global", "cacheDuration": "1h"`, image: "s.example/b", wantRuns: 1},
		"not at all":                 {fields: `"cacheKeyType": "Global", "cacheDuration": "0s"`, keep: time.Hour, image: "r.example/a", wantRuns: 2},
		"for the default time":       {fields: `"cacheKeyType": "Image"`, keep: time.Hour, image: "r.example/a", wantRuns: 1},
		"by default not at all":      {fields: `"cacheKeyType": "Image"`, image: "r.example/a", wantRuns: 2},
		"by default, if it is null":  {fields: `"cacheKeyType": "Image", "cacheDuration": null`, keep: time.Hour, image: "r.example/a", wantRuns: 1},
		"not if it is not an answer": {fields: `"cacheKeyType": "image", "cacheDuration": "1h"`, image: "r.example/a", wantRuns: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShell(t)
			s.add("p", answer(tc.fields+`, `+auth("*.example")), "*.example")
			s.providers[0].DefaultCacheDuration = tc.keep
			p := s.plugins()
			first := s.find(p, "r.example/a:1")
			require.Equal(t, first, s.find(p, tc.image))
			require.Len(t, s.runs("p"), tc.wantRuns)
		})
	}
}

func TestAnAnswerExpires(t *testing.T) {
	s := newShell(t)
	s.add("p", answer(`"cacheKeyType": "Global", "cacheDuration": "1ms", `+auth("r.example")), "r.example")
	p := s.plugins()
	for end := time.Now().Add(time.Minute); len(s.runs("p")) < 2; {
		require.Equal(t, []string{"u:p"}, s.find(p, "r.example/a"))
		require.True(t, time.Now().Before(end))
	}
}

// What plug-ins can do wrong. No image is left without a pull, and what the plug-in says is in no error.
func TestHostilePlugIns(t *testing.T) {
	const secret = "hunter2"
	for name, tc := range map[string]struct{ script, want string }{
		"fails":                   {"echo " + secret + " >&2; echo " + secret + "; exit 3", "exit status 3"},
		"is killed":               {"kill -9 $$", "signal: killed"},
		"says nothing":            {"", "no CredentialProviderResponse"},
		"says something else":     {"echo " + secret, "no CredentialProviderResponse"},
		"says a number":           {`echo '{"kind": "CredentialProviderResponse", "apiVersion": 5` + secret + `}'`, "no CredentialProviderResponse"},
		"has a number for a name": {answer(`"cacheKeyType": "Image", "auth": {"r.example": {"username": 4711, "password": "` + secret + `"}}`), "no CredentialProviderResponse"},
		"answers a request":       {`echo '{"kind": "CredentialProviderRequest", "apiVersion": "` + version + `"}'`, "no CredentialProviderResponse"},
		"has another version":     {`echo '{"kind": "CredentialProviderResponse", "apiVersion": "` + secret + `", "cacheKeyType": "Image"}'`, "apiVersion"},
		"has no key":              {answer(`"cacheKeyType": "` + secret + `", ` + auth("r.example")), "cacheKeyType"},
		"is valid for a day":      {answer(`"cacheKeyType": "Image", "cacheDuration": "` + secret + `", ` + auth("r.example")), "cacheDuration"},
		"says too much":           {"while :; do echo " + strings.Repeat(secret, 1000) + "; done", "more than 1048576 bytes"},
		"says it in one piece":    {"head -c 3000000 /dev/zero", "more than 1048576 bytes"},
		"complains at length":     {"head -c 30000000 /dev/zero >&2; exit 1", "exit status 1"},
		"does not read":           {"exec 0<&-; exit 1", "exit status 1"},
		"leaves a child":          {"sleep 1000 & echo $! >> " + "$0.child; exit 0", "another process holds its output"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShell(t)
			s.add("bad", tc.script, "r.example")
			s.add("good", answer(`"cacheKeyType": "Image", `+auth("r.example")), "r.example")
			p := s.plugins()
			require.Equal(t, []string{"u:p"}, s.find(p, "r.example/a"), "the other plug-in's")
			if child, err := os.ReadFile(filepath.Join(s.dir, "bad.child")); err == nil {
				pid, err := strconv.Atoi(strings.TrimSpace(string(child)))
				require.NoError(t, err)
				child, err := os.FindProcess(pid)
				require.NoError(t, err)
				require.NoError(t, child.Kill())
			}
			var errs []string
			for _, err := range s.errs {
				if err != nil {
					errs = append(errs, err.Error())
				}
			}
			require.Len(t, errs, 1)
			assert.Contains(t, errs[0], "credential provider bad for image r.example/a: ")
			assert.Contains(t, errs[0], tc.want)
			assert.NotContains(t, errs[0], secret)
			assert.Less(t, len(errs[0]), 200)
		})
	}
}

// The end of a pull ends the plug-in with the processes that it started.
func TestAPlugInThatHangsEndsWithThePull(t *testing.T) {
	s := newShell(t)
	s.add("hangs", "sh -c 'echo $$ > "+s.dir+"/child; while :; do sleep 0.05; done' & wait", "r.example")
	p := s.plugins()
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	go func() {
		_, err := p.Find(ctx, nil, "r.example/a")
		ended <- err
	}()
	child := ""
	for end := time.Now().Add(time.Minute); child == ""; time.Sleep(5 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(s.dir, "child"))
		child = strings.TrimSpace(string(text))
		require.True(t, time.Now().Before(end))
	}
	cancel(assert.AnError)
	require.ErrorIs(t, <-ended, assert.AnError)
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if status, err := os.ReadFile("/proc/" + child + "/stat"); err != nil || strings.Contains(string(status), ") Z") {
			break
		}
		require.True(t, time.Now().Before(end), "its child is dead")
	}
	require.Empty(t, s.errs, "it is not the plug-in's fault")
}

// Pods that want one image share a run, and a pod that leaves does not take it from the others.
func TestCallersShareARun(t *testing.T) {
	s := newShell(t)
	gate := filepath.Join(s.dir, "gate")
	s.add("p", "while ! [ -e "+gate+" ]; do sleep 0.01; done\n"+answer(`"cacheKeyType": "Image", "cacheDuration": "1h", `+auth("r.example")), "r.example")
	p := s.plugins()
	first, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := p.Find(first, nil, "r.example/a")
		left <- err
	}()
	waitFor := func(runs int) {
		for end := time.Now().Add(time.Minute); len(s.runs("p")) < runs; time.Sleep(5 * time.Millisecond) {
			require.True(t, time.Now().Before(end))
		}
	}
	waitFor(1)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { assert.Equal(t, []string{"u:p"}, s.find(p, "r.example/a")) })
	}
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	waitFor(2)
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	wg.Wait()
	require.Len(t, s.runs("p"), 2)
}

func TestOptionsThatAreRefused(t *testing.T) {
	valid := credentialplugin.Provider{Name: "p", APIVersion: version, MatchImages: []string{"r.example"}}
	with := func(change func(*credentialplugin.Provider)) []credentialplugin.Provider {
		p := valid
		change(&p)
		return []credentialplugin.Provider{p}
	}
	for want, o := range map[string]credentialplugin.Options{
		"Options.Dir":          {Dir: "bin", Providers: []credentialplugin.Provider{valid}},
		"at least one":         {Dir: "/bin"},
		"twice":                {Dir: "/bin", Providers: []credentialplugin.Provider{valid, valid}},
		"name of a program":    {Dir: "/bin", Providers: with(func(p *credentialplugin.Provider) { p.Name = "../p" })},
		"apiVersion":           {Dir: "/bin", Providers: with(func(p *credentialplugin.Provider) { p.APIVersion = "v1" })},
		"matchImages: at":      {Dir: "/bin", Providers: with(func(p *credentialplugin.Provider) { p.MatchImages = nil })},
		`"https://r" is no`:    {Dir: "/bin", Providers: with(func(p *credentialplugin.Provider) { p.MatchImages = []string{"https://r"} })},
		"defaultCacheDuration": {Dir: "/bin", Providers: with(func(p *credentialplugin.Provider) { p.DefaultCacheDuration = -1 })},
	} {
		_, err := credentialplugin.New(o)
		assert.ErrorContains(t, err, want)
	}
	p, err := credentialplugin.New(credentialplugin.Options{Dir: t.TempDir(), Providers: []credentialplugin.Provider{valid}})
	require.NoError(t, err)
	require.ErrorIs(t, p.Check(), os.ErrNotExist)
	s := newShell(t)
	s.add("p", "", "r.example")
	require.NoError(t, os.Chmod(filepath.Join(s.dir, "p"), 0o600))
	p, err = credentialplugin.New(credentialplugin.Options{Dir: s.dir, Providers: s.providers})
	require.NoError(t, err)
	require.ErrorContains(t, p.Check(), "no executable program")
	require.Nil(t, s.find(p, "r.example/a"))
}

func BenchmarkFindKept(b *testing.B) {
	s := newShell(b)
	s.add("p", answer(`"cacheKeyType": "Registry", "cacheDuration": "1h", `+auth("r.example")), "r.example")
	p := s.plugins()
	s.find(p, "r.example/a")
	b.ReportAllocs()
	for b.Loop() {
		if auths, err := p.Find(b.Context(), nil, "r.example/team/app:1"); err != nil || auths[0] != (runtime.ImageAuth{Username: "u", Password: "p"}) {
			b.Fatal(err)
		}
	}
}
