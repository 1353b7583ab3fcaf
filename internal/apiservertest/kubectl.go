// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Kubectl runs kubectl as an administrator, and returns its output. kubectl has the version of the
// server, and shares neither settings nor caches with other servers.
func (s *Server) Kubectl(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, s.binaries.kubectl, append([]string{
		"--kubeconfig=" + s.Kubeconfig(), "--cache-dir=" + s.folder.file("kubectl-cache"),
	}, args...)...)
	cmd.Env = []string{"HOME=" + s.folder.dir, "TMPDIR=" + s.folder.dir}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
