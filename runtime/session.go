// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"io"
)

// SessionExecer is an optional ability of a Runtime that is no Streamer: to run a command beside a
// running container with the streams of a Session.
type SessionExecer interface {
	// ExecSession runs cmd with the environment and the working directory of the container, and
	// returns its exit code after all output has been written. An error means that the command
	// could not be run, or that ctx has ended; then the command and the processes that it has
	// started are killed. The writers of the session must return after ctx has ended. A Read of
	// Stdin may be in progress when ExecSession returns; the caller ends it.
	ExecSession(ctx context.Context, id ContainerID, cmd []string, s Session) (exitCode int, err error)
}

// Session is a set of streams of a command.
type Session struct {
	// Stdin is the command's input. Its end is the end of the input. nil: the input is empty.
	Stdin io.Reader
	// Stdout and Stderr receive the output. nil: the stream is discarded. With a terminal, all
	// output goes to Stdout.
	Stdout, Stderr io.Writer
	// TTY gives the command a terminal of its own.
	TTY bool
	// Resize has the sizes of the terminal. nil: the size does not change.
	Resize <-chan TerminalSize
}

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct{ Width, Height uint16 }
