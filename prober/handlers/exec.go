// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/conceal"
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
	words, room := make([]string, len(command)), maxCommand
	for i, word := range command {
		words[i] = expand(word, known, room)
		if room -= len(words[i]); room < 0 {
			return nil, errCommandTooLong
		}
	}
	return words, nil
}

// expand replaces every $(NAME) by the value of NAME, in one pass. An unknown reference stays, and
// $$ stands for $. expand stops once the result is longer than room.
func expand(s string, known map[string]string, room int) string {
	if !strings.Contains(s, "$") {
		return s
	}
	var b strings.Builder
	for s != "" && b.Len() <= room {
		text, rest, found := strings.Cut(s, "$")
		b.WriteString(text)
		if !found {
			break
		}
		if strings.HasPrefix(rest, "(") && !strings.Contains(rest, ")") {
			// No further reference is closed, so only $$ is left to replace. Returning here avoids
			// repeated searches.
			b.WriteString(strings.ReplaceAll("$"+rest, "$$", "$"))
			break
		}
		var piece string
		piece, s = reference(rest, known)
		b.WriteString(piece)
	}
	return b.String()
}

// reference reads a reference from s, the text after a $. It returns the replacement and the rest
// of s. If s begins with "(", there is a ")".
func reference(s string, known map[string]string) (piece, rest string) {
	switch {
	case strings.HasPrefix(s, "$"):
		return "$", s[1:]
	case !strings.HasPrefix(s, "("):
		return "$", s
	}
	name, rest, _ := strings.Cut(s[1:], ")")
	if value, ok := known[name]; ok {
		return value, rest
	}
	return "$(" + name + ")", rest
}
