// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	utilexec "k8s.io/utils/exec"

	"github.com/keelson-dev/keelson/runtime"
)

// stdinAhead is the number of bytes of a client's input that are read before the command takes them.
// While a command reads nothing, the client's pings, terminal sizes and its end come behind its
// input on the same connection. The kubelet reads one message ahead.
const stdinAhead = 1 << 20

// statusPatience is the time that a client has for reading the last output and the status.
const statusPatience = 10 * time.Second

// serveV5 runs a session with a client of the WebSocket protocol v5.channel.k8s.io, which upstream's
// stream servers do not have. It differs from v4 by a message that ends the input.
func serveV5(w http.ResponseWriter, r *http.Request, want *remotecommand.Options, run execFunc) {
	w, r, end := watchClient(w, r)
	defer end()
	kinds := channelsV5(want)
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{remotecommand.StreamProtocolV5Name: {Binary: true, Channels: kinds}})
	_, channels, err := conn.Open(w, r)
	if err != nil {
		return // the client has been told
	}
	for _, c := range []int{remotecommand.StreamStdOut, remotecommand.StreamStdErr, remotecommand.StreamErr} {
		if kinds[c] == wsstream.WriteChannel {
			_, _ = channels[c].Write(nil) // the client now knows that it is connected; an error ends r's context
			break
		}
	}
	status := sessionStatus(runV5(r.Context(), channels, want, run))
	defer time.AfterFunc(statusPatience, end).Stop() // Close waits for a message in progress
	defer conn.Close()
	if text, err := json.Marshal(status); err == nil {
		_, _ = channels[remotecommand.StreamErr].Write(text) // a client that has left cannot be told
	}
}

// channelsV5 returns the kinds of the five channels. A message on an ignored channel is dropped.
func channelsV5(want *remotecommand.Options) []wsstream.ChannelType {
	channels := make([]wsstream.ChannelType, 5)
	for channel, kind := range map[int]wsstream.ChannelType{
		remotecommand.StreamStdIn:  only(want.Stdin, wsstream.ReadChannel),
		remotecommand.StreamStdOut: only(want.Stdout, wsstream.WriteChannel),
		remotecommand.StreamStdErr: only(want.Stderr, wsstream.WriteChannel),
		remotecommand.StreamErr:    wsstream.WriteChannel,
		remotecommand.StreamResize: only(want.TTY, wsstream.ReadChannel),
	} {
		channels[channel] = kind
	}
	return channels
}

// only returns kind if the channel is asked for.
func only(asked bool, kind wsstream.ChannelType) wsstream.ChannelType {
	if asked {
		return kind
	}
	return wsstream.IgnoreChannel
}

// runV5 connects a session with the channels.
func runV5(ctx context.Context, channels []io.ReadWriteCloser, want *remotecommand.Options, run execFunc) error {
	s := runtime.Session{TTY: want.TTY}
	if want.Stdin {
		input := newAhead(stdinAhead)
		defer input.stop()
		go input.fill(channels[remotecommand.StreamStdIn]) // ends with the connection
		s.Stdin = input
	}
	if want.Stdout {
		s.Stdout = sessionWriter{ctx, channels[remotecommand.StreamStdOut]}
	}
	if want.Stderr {
		s.Stderr = sessionWriter{ctx, channels[remotecommand.StreamStdErr]}
	}
	if want.TTY {
		sizes := make(chan runtime.TerminalSize, 1)
		s.Resize = sizes
		go readSizes(channels[remotecommand.StreamResize], sizes) // ends with the connection
	}
	return run(ctx, s)
}

// readSizes sends the sizes of a terminal to a channel with room for one, and closes the channel. A
// size that was not taken is replaced by the next.
func readSizes(from io.Reader, sizes chan runtime.TerminalSize) {
	defer close(sizes)
	for messages := json.NewDecoder(from); ; {
		var size runtime.TerminalSize
		if messages.Decode(&size) != nil {
			_, _ = io.Copy(io.Discard, from) // messages behind an invalid one must not wait for a reader
			return
		}
		select {
		case <-sizes:
		default:
		}
		sizes <- size
	}
}

// sessionStatus returns the last message of a session: how the command ended, or why it did not run.
func sessionStatus(err error) metav1.Status {
	if err == nil {
		return metav1.Status{Status: metav1.StatusSuccess}
	}
	exit, ok := errors.AsType[utilexec.ExitError](err)
	if !ok || !exit.Exited() {
		return apierrors.NewInternalError(err).Status()
	}
	cause := metav1.StatusCause{Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(exit.ExitStatus())}
	return metav1.Status{
		Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
		Message: fmt.Sprintf("command terminated with non-zero exit code: %v", err),
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{cause}},
	}
}
