// SPDX-License-Identifier: Apache-2.0

package imageimport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/keelson-dev/keelson/runtime/imagearchive"
)

// Ctr is an Importer for containerd. It runs the program ctr, which is part of containerd's packages:
// the client library of containerd would add tens of megabytes to the caller.
type Ctr struct {
	// Socket is the path of containerd's socket. Required.
	Socket string
	// Program is the path of ctr. Defaults to ctr in PATH.
	Program string
}

// namespace is where containerd keeps the images of the CRI.
const namespace = "k8s.io"

// pinLabel is the label of an image that containerd (1.7 and later) reports as pinned through the
// CRI.
const pinLabel = "io.cri-containerd.pinned"

// Import implements Importer.
func (c Ctr) Import(ctx context.Context, a *imagearchive.Archive) error {
	in, err := a.Tar()
	if err != nil {
		return err
	}
	defer in.Close()
	cmd := c.command(ctx, "images", "import", "-")
	cmd.Stdin = in
	if err := run(cmd); err != nil {
		return err
	}
	for _, name := range a.Names() {
		if err := run(c.command(ctx, "images", "label", name, pinLabel+"=pinned")); err != nil {
			return fmt.Errorf("pin %s: %w", name, err)
		}
	}
	return nil
}

// Unpin implements Importer.
func (c Ctr) Unpin(ctx context.Context, names []string) error {
	var all []error
	for _, name := range names {
		err := run(c.command(ctx, "images", "label", name, pinLabel+"="))
		if err != nil && !strings.Contains(err.Error(), "not found") {
			all = append(all, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(all...)
}

func (c Ctr) command(ctx context.Context, args ...string) *exec.Cmd {
	program := cmp.Or(c.Program, "ctr")
	return exec.CommandContext(ctx, program, append([]string{"--address", c.Socket, "--namespace", namespace}, args...)...)
}

// maxOutput limits the part of a program's output in an error.
const maxOutput = 500

// run runs a program. The error has the end of its output.
func run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	text := strings.Join(strings.Fields(string(out)), " ")
	if len(text) > maxOutput {
		text = "…" + strings.ToValidUTF8(text[len(text)-maxOutput:], "")
	}
	return fmt.Errorf("%s: %w: %s", cmd.Args[0], err, text)
}
