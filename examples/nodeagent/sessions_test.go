// SPDX-License-Identifier: Apache-2.0

//go:build linux && !noapiserver

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/keelson-dev/keelson/internal/testport"
)

// direct is a node without an API server, whose --port accepts the test's certificate.
type direct struct {
	*station
	config *rest.Config
	client *http.Client
	base   string
}

func newDirect(t *testing.T) direct {
	t.Helper()
	d := direct{station: newStation(t, backends["process"])}
	cert, key := clientCertificate(t)
	port := testport.Free(t)
	d.base = fmt.Sprintf("https://127.0.0.1:%d", port)
	d.config = &rest.Config{Host: d.base, TLSClientConfig: rest.TLSClientConfig{Insecure: true, CertFile: cert, KeyFile: key}}
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}}
	d.client = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	manifest, _ := d.service("web", "echo one; "+forever)
	d.write("web.yaml", manifest)
	d.start("--port", strconv.Itoa(port), "--client-ca-file", cert, "--authorization-mode", modeAlwaysAllow, "--profiling")
	d.waitPhase("web-n", v1.PodRunning)
	return d
}

// exec runs a command until ctx ends, with its input and output.
func (d direct) exec(ctx context.Context, in io.Reader, out io.Writer, command ...string) error {
	query := url.Values{"command": command, "input": {"1"}, "output": {"1"}}
	client, err := remotecommand.NewWebSocketExecutor(d.config, "GET", d.base+"/exec/default/web-n/main?"+query.Encode())
	if err != nil {
		return err
	}
	return client.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out})
}

// follow returns the log after its first line, until ctx ends.
func (d direct) follow(ctx context.Context) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, "GET", d.base+"/containerLogs/default/web-n/main?follow=true", nil)
	if err != nil {
		return nil, err
	}
	response, err := d.client.Do(r)
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(response.Body, make([]byte, len("one\n"))); err != nil {
		return nil, errors.Join(err, response.Body.Close())
	}
	return response.Body, nil
}

// goroutines returns the number of goroutines of the agent.
func (d direct) goroutines() int {
	d.Helper()
	response, err := d.client.Get(d.base + "/debug/pprof/goroutine?debug=1")
	require.NoError(d, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(d, err)
	total := regexp.MustCompile(`total (\d+)`).FindSubmatch(text)
	require.NotNil(d, total, "%s", text)
	n, err := strconv.Atoi(string(total[1]))
	require.NoError(d, err)
	return n
}

// memory returns the resident memory of the agent in KiB.
func (d direct) memory() int {
	d.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(d.agent.Process.Pid), "status"))
	require.NoError(d, err)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); fields[0] == "VmRSS:" {
			n, err := strconv.Atoi(fields[1])
			require.NoError(d, err)
			return n
		}
	}
	d.Fatal("no VmRSS")
	return 0
}

// opened is closed when the first output of a command comes.
type opened struct {
	once sync.Once
	seen chan struct{}
}

func (o *opened) Write(p []byte) (int, error) {
	o.once.Do(func() { close(o.seen) })
	return len(p), nil
}

// Many clients at once are served, and leave nothing behind. With KEELSON_SOAK they are 1,000 followers
// of a log and 200 commands; make bench-sessions prints what they cost.
func TestManySessions(t *testing.T) {
	followers, commands := 50, 10
	if os.Getenv("KEELSON_SOAK") != "" {
		followers, commands = 1000, 200
	}
	d := newDirect(t)
	d.report("idle")
	before := d.goroutines()
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	failed := make(chan error, followers+commands)
	for range followers {
		log, err := d.follow(ctx)
		require.NoError(t, err)
		all.Go(func() {
			_, _ = io.Copy(io.Discard, log) // until the end of ctx
			log.Close()
		})
	}
	d.report(fmt.Sprint(followers, " followers of a log"))
	for range commands {
		out := &opened{seen: make(chan struct{})}
		in, write := io.Pipe()
		all.Go(func() {
			if err := d.exec(ctx, in, out, "cat"); ctx.Err() == nil {
				failed <- fmt.Errorf("a command ended early: %w", err)
			}
		})
		_, err := write.Write([]byte("x"))
		require.NoError(t, err)
		select {
		case <-out.seen:
		case err := <-failed:
			require.NoError(t, err)
		}
		context.AfterFunc(ctx, func() { write.Close() })
	}
	d.report(fmt.Sprint("and ", commands, " commands"))
	leave()
	all.Wait()
	d.client.CloseIdleConnections()
	d.eventually("no goroutine is left", func() bool { return d.goroutines() <= before })
	d.report("after they have left")
	require.Empty(t, failed)
}

func (d direct) report(when string) {
	d.Helper()
	d.Logf("%-28s %5d goroutines %7.1f MiB", when, d.goroutines(), float64(d.memory())/1024)
}

// What the server costs an agent that nobody asks: with a pod, with and without --port. It measures
// with KEELSON_SOAK only, for make bench-sessions.
func TestCostOfTheServer(t *testing.T) {
	if os.Getenv("KEELSON_SOAK") == "" {
		t.Skip("only measures; KEELSON_SOAK is not set")
	}
	const idle = 30 * time.Second
	d := newDirect(t)
	args := d.agent.Args[len(d.agent.Args)-7:] // from --port
	for name, more := range map[string][]string{"without --port": nil, "with --port": args} {
		d.interrupt()
		began := time.Now()
		d.start(more...)
		started := time.Since(began)
		d.waitPhase("web-n", v1.PodRunning)
		time.Sleep(5 * time.Second)
		before := d.cpu()
		time.Sleep(idle)
		d.Logf("%-15s answers after %4d ms, idle %.2f %% of a core, %.1f MiB", name, started.Milliseconds(),
			100*float64(d.cpu()-before)/float64(idle), float64(d.memory())/1024)
	}
}

// cpu returns the processor time of the agent.
func (d direct) cpu() time.Duration {
	d.Helper()
	threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(d.agent.Process.Pid), "task/*/schedstat"))
	require.NoError(d, err)
	var total int64 // of the threads that live; Go keeps its threads
	for _, file := range threads {
		text, err := os.ReadFile(file)
		require.NoError(d, err)
		n, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		require.NoError(d, err)
		total += n
	}
	return time.Duration(total)
}

// An agent that is killed leaves no command of its sessions, and the next agent serves again.
func TestKilledWithSessionsOpen(t *testing.T) {
	t.Parallel()
	d := newDirect(t)
	var all sync.WaitGroup
	for range 5 {
		out := &opened{seen: make(chan struct{})}
		all.Go(func() { _ = d.exec(t.Context(), silence(t.Context()), out, "sh", "-c", "echo; exec sleep 100000") })
		<-out.seen
	}
	sessions := func() (n int) {
		files, err := filepath.Glob("/proc/[0-9]*/cmdline")
		require.NoError(t, err)
		for _, file := range files {
			text, _ := os.ReadFile(file) // a process may have ended
			cwd, _ := os.Readlink(filepath.Join(filepath.Dir(file), "cwd"))
			if string(text) == "sleep\x00100000\x00" && strings.HasPrefix(cwd, d.root) {
				n++
			}
		}
		return n
	}
	require.Equal(t, 5, sessions())
	d.kill()
	all.Wait() // the clients learn of it
	d.eventually("no command is left", func() bool { return sessions() == 0 })
	d.start()
	d.waitPhase("web-n", v1.PodRunning)
}
