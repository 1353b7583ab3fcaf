// SPDX-License-Identifier: Apache-2.0

//go:build !nolocalapi && !noapiserver

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/gorilla/websocket"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Channels of the WebSocket protocol v5.channel.k8s.io.
const (
	channelStdin  = 0
	channelStdout = 1
	channelStderr = 2
	channelStatus = 3
	channelResize = 4
	channelClose  = 255
)

// inputSize is the number of bytes of input in a message.
const inputSize = 32 << 10

// session is a command in a container.
type session struct {
	pod, container string
	command        []string
	in             io.Reader // nil: none
	out, errOut    io.Writer
	tty            bool
}

// run runs a session. An exit code that is not 0 is an exitError.
func (c *call) run(ctx context.Context, s session) error {
	query := url.Values{"container": {s.container}, "command": s.command, "stdout": {"true"}}
	query.Set("stdin", strconv.FormatBool(s.in != nil))
	query.Set("stderr", strconv.FormatBool(!s.tty))
	query.Set("tty", strconv.FormatBool(s.tty))
	address := "ws://node" + c.podPath(s.pod) + "/exec?" + query.Encode()
	// The server takes no fragments: the buffer has room for a whole message.
	dialer := websocket.Dialer{NetDialContext: c.dial, Subprotocols: []string{"v5.channel.k8s.io"}, WriteBufferSize: 2 * inputSize}
	conn, response, err := dialer.DialContext(ctx, address, nil)
	if errors.Is(err, websocket.ErrBadHandshake) {
		return failure(response)
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	to := &channels{conn: conn}
	if s.in != nil {
		go to.send(s.in) // ends with the connection or with the program
	}
	if s.tty {
		defer to.resize()()
	}
	for {
		_, message, err := conn.ReadMessage()
		if err != nil {
			return fmt.Errorf("the session was interrupted: %w", err)
		}
		if len(message) == 0 {
			continue
		}
		switch data := message[1:]; message[0] {
		case channelStdout:
			_, err = s.out.Write(data)
		case channelStderr:
			_, err = s.errOut.Write(data)
		case channelStatus:
			return sessionEnd(data)
		}
		if err != nil {
			return err
		}
	}
}

// sessionEnd returns the error in the last message of a session.
func sessionEnd(data []byte) error {
	var status metav1.Status
	if err := json.Unmarshal(data, &status); err != nil {
		return fmt.Errorf("the end of the session: %w", err)
	}
	if status.Status == metav1.StatusSuccess {
		return nil
	}
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			if code, err := strconv.Atoi(cause.Message); err == nil && cause.Type == "ExitCode" {
				return exitError(code)
			}
		}
	}
	return &statusError{status}
}

// channels writes messages. A connection has a single writer at a time.
type channels struct {
	mu   sync.Mutex
	conn *websocket.Conn
}

func (c *channels) write(channel byte, data ...byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, data...))
}

// send passes an input until its end.
func (c *channels) send(in io.Reader) {
	buffer := make([]byte, inputSize)
	for {
		n, err := in.Read(buffer)
		if n > 0 && c.write(channelStdin, buffer[:n]...) != nil {
			return
		}
		if err != nil {
			_ = c.write(channelClose, channelStdin) // after an error the reader sees the end
			return
		}
	}
}

// resize passes the size of the terminal until the returned function is called.
func (c *channels) resize() (stop func()) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	tell := func() {
		if width, height, err := term.GetSize(int(os.Stdin.Fd())); err == nil {
			_ = c.write(channelResize, fmt.Appendf(nil, `{"Width":%d,"Height":%d}`, width, height)...) // the next size may arrive
		}
	}
	tell()
	go func() { // ends with stop
		for range changes {
			tell()
		}
	}()
	return func() {
		signal.Stop(changes)
		close(changes)
	}
}

func execInPod(ctx context.Context, c *call) error {
	s := session{command: c.args[1:], out: c.out, errOut: c.errOut, tty: c.tty}
	s.pod, s.container, _ = strings.Cut(c.args[0], "/")
	if c.stdin {
		s.in = c.in
	}
	if c.tty {
		if !term.IsTerminal(int(c.in.Fd())) {
			return errors.New("--tty: standard input is no terminal")
		}
		before, err := term.MakeRaw(int(c.in.Fd()))
		if err != nil {
			return err
		}
		defer func() { _ = term.Restore(int(c.in.Fd()), before) }()
	}
	return c.run(ctx, s)
}

// copyFile copies a file by "cat" in the container.
func copyFile(ctx context.Context, c *call) error {
	fromPod, fromPath, from := strings.Cut(c.args[0], ":")
	toPod, toPath, to := strings.Cut(c.args[1], ":")
	s := session{out: io.Discard, errOut: c.errOut}
	switch {
	case from == to, from && fromPath == "", to && toPath == "":
		return errors.New("want POD:FILE as one of the two arguments")
	case to:
		f, err := os.Open(c.args[0])
		if err != nil {
			return err
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no file", c.args[0])
		}
		s.pod, s.container, _ = strings.Cut(toPod, "/")
		s.in, s.command = f, []string{"sh", "-c", `cat > "$0"`, toPath}
		return c.run(ctx, s)
	}
	path := c.args[1]
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, filepath.Base(fromPath))
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".nodeagent-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	s.pod, s.container, _ = strings.Cut(fromPod, "/")
	s.out, s.command = f, []string{"cat", fromPath}
	if err := errors.Join(c.run(ctx, s), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
