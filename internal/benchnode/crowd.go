// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// crowd is a number of equal programs. Each program opens a fifo, writes a byte, and holds the fifo
// open until its end, so that the kernel reports the start and the end of all programs.
type crowd struct {
	size   int
	dir    string // of the fifos
	lives  *os.File
	writer *os.File // open until all programs run: without a writer the fifo is at its end
}

// crowdPatience is the longest time until all programs run, or have ended.
const crowdPatience = 5 * time.Minute

func newCrowd(dir string, size int) (*crowd, error) {
	c := &crowd{size: size, dir: dir}
	for _, name := range []string{"lives", "never"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(unix.Mkfifo(path, 0o600), os.Chmod(path, 0o666)); err != nil {
			return nil, err
		}
	}
	var err error
	if c.lives, err = os.OpenFile(filepath.Join(dir, "lives"), os.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
		return nil, err
	}
	c.writer, err = os.OpenFile(filepath.Join(dir, "lives"), os.O_WRONLY, 0)
	return c, err
}

func (c *crowd) close() {
	_ = c.lives.Close()
	_ = c.writer.Close()
}

// script is the shell script of a program: a single process, which ends at once on SIGTERM.
func (c *crowd) script() string {
	return fmt.Sprintf("trap 'exit 0' TERM; exec 3>%[1]s/lives 4<>%[1]s/never; echo >&3; read x <&4", c.dir)
}

// awaitStart waits until all programs run.
func (c *crowd) awaitStart() error {
	if err := c.lives.SetReadDeadline(time.Now().Add(crowdPatience)); err != nil {
		return err
	}
	buf := make([]byte, 4096)
	for got := 0; got < c.size; {
		n, err := c.lives.Read(buf)
		if err != nil {
			return fmt.Errorf("%d of %d programs run: %w", got, c.size, err)
		}
		got += n
	}
	return c.writer.Close()
}

// awaitEnd waits until all programs have ended.
func (c *crowd) awaitEnd() error {
	if err := c.lives.SetReadDeadline(time.Now().Add(crowdPatience)); err != nil {
		return err
	}
	n, err := c.lives.Read(make([]byte, 1))
	switch {
	case n > 0:
		return errors.New("a program was started twice")
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}
