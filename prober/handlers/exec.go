// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/conceal"
	"github.com/keelson-dev/keelson/internal/expansion"
	"github.com/keelson-dev/keelson/prober"
)

// maxCommand is the size limit of a command in bytes, after expanding variables.
const maxCommand = 1 << 20

var errCommandTooLong = fmt.Errorf("the command is longer than %d bytes", maxCommand)

// exec is healthy if the command exits with 0 in time.
func (h *Handler) exec(ctx context.Context, t prober.Target, action *v1.ExecAction) (prober.Outcome, error) {
	if h.runner == nil {
		return prober.Outcome{}, ErrNoRunner
	}
	command, err := expandCommand(action.Command, t.Container.Env)
	if err != nil {
		return prober.Outcome{}, err
	}
	secrets := secretsOf(t.Container.Env, action.Command, command)
	stdout, stderr, code, err := h.runner.Exec(ctx, t.Instance.ID, command)
	switch {
	case err != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded)):
		return failure(ctx, "the command did not end in time")
	case err != nil:
		return prober.Outcome{}, fmt.Errorf("exec probe: %w", secrets.Error(err))
	}
	output := secrets.Text(joined(stdout, stderr))
	if code != 0 {
		return failure(ctx, "%s", output)
	}
	return prober.Outcome{Verdict: prober.VerdictSuccess, Output: output}, nil
}

// secretsOf returns the texts to hide from results: the values of variables in the spec, and the
// words of the command with such values. Shells and runtimes quote a command in their errors.
func secretsOf(env []v1.EnvVar, written, expanded []string) *conceal.Values {
	secrets := &conceal.Values{}
	for i := range env {
		secrets.Variable(env[i].Name, env[i].Value)
	}
	for i := range written {
		secrets.Expanded(written[i], expanded[i])
	}
	return secrets
}

// joined returns the output in the kubelet's order: stdout, then stderr.
func joined(stdout, stderr []byte) string {
	stdout = stdout[:min(len(stdout), prober.MaxOutput)]
	stderr = stderr[:min(len(stderr), prober.MaxOutput)]
	return prober.LimitOutput(string(stdout) + string(stderr))
}

// expandCommand replaces the references to variables in a command. Only variables with a value in
// the spec are known.
func expandCommand(command []string, env []v1.EnvVar) ([]string, error) {
	known := map[string]string{}
	for i := range env {
		if env[i].ValueFrom == nil {
			known[env[i].Name] = env[i].Value
		}
	}
	lookup := func(name string) (string, bool) {
		value, ok := known[name]
		return value, ok
	}
	words, room := make([]string, len(command)), maxCommand
	for i, word := range command {
		text, fits := expansion.Expand(word, room, lookup)
		if !fits {
			return nil, errCommandTooLong
		}
		words[i] = text
		room -= len(text)
	}
	return words, nil
}
