// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"context"
	"net/url"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
)

func streamCases() []testCase {
	return []testCase{
		{"StreamURLs", streamURLs},
		{"StreamsThatCannotBe", streamsThatCannotBe},
	}
}

func imageCases() []testCase {
	return []testCase{
		{"ImageIDs", imageIDs},
		{"PullOfAnAbsentImage", pullOfAnAbsentImage},
		{"PullOfAnImage", pullOfAnImage},
	}
}

func (b *bench) streamer() runtime.Streamer {
	s, ok := b.rt.(runtime.Streamer)
	if !ok {
		b.Skip("the backend is no runtime.Streamer")
	}
	return s
}

func streamURLs(b *bench) {
	b.streamer()
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.run(p, sb, "main", 0, Behaviour{})
	seen := map[string]bool{}
	check := func(u *url.URL, err error) {
		b.Helper()
		require.NoError(b, err, ruleStream)
		require.NotNil(b, u, ruleStream)
		require.True(b, u.IsAbs() && u.Host != "", ruleStreamURL)
		require.False(b, seen[u.String()], ruleStreamOnce)
		seen[u.String()] = true
	}
	cmd := b.command(Behaviour{ExitAfter: AtOnce})
	for range 2 { // with the value that made the container, and with a value that finds the container
		s := b.streamer()
		for _, streams := range []runtime.Streams{
			{Stdout: true}, {Stderr: true}, {Stdin: true}, {Stdin: true, Stdout: true, Stderr: true}, {Stdin: true, Stdout: true, Stderr: true, TTY: true},
		} {
			check(s.ExecURL(b.Context(), id, cmd, streams))
		}
		check(s.AttachURL(b.Context(), id, runtime.Streams{Stdout: true, Stderr: true}))
		check(s.AttachURL(b.Context(), id, runtime.Streams{Stdout: true, Stderr: true}))
		check(s.PortForwardURL(b.Context(), sb, []int32{80, 443}))
		check(s.PortForwardURL(b.Context(), sb, nil))
		b.reopen(func() {})
	}
	b.mustState(p, id, runtime.StateRunning, ruleStream)
}

func streamsThatCannotBe(b *bench) {
	s := b.streamer()
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.run(p, sb, "main", 0, Behaviour{})
	cmd, out := b.command(Behaviour{ExitAfter: AtOnce}), runtime.Streams{Stdout: true}
	for what, streams := range map[string]runtime.Streams{"no stream": {}, "only a terminal": {TTY: true}} {
		_, err := s.ExecURL(b.Context(), id, cmd, streams)
		require.Error(b, err, "%s: %s", ruleStreamBad, what)
		_, err = s.AttachURL(b.Context(), id, streams)
		require.Error(b, err, "%s: %s", ruleStreamBad, what)
	}
	_, err := s.ExecURL(b.Context(), id, nil, out)
	require.Error(b, err, ruleStreamBad)
	for _, port := range []int32{-80, 0, 1 << 16} {
		_, err = s.PortForwardURL(b.Context(), sb, []int32{80, port})
		require.Error(b, err, "%s: %d", ruleStreamBad, port)
	}
	require.NoError(b, b.rt.RemoveSandbox(b.Context(), sb), ruleRemove)
	_, err = s.ExecURL(b.Context(), id, cmd, out)
	require.ErrorIs(b, err, runtime.ErrNotFound, ruleNotFound)
	_, err = s.AttachURL(b.Context(), id, out)
	require.ErrorIs(b, err, runtime.ErrNotFound, ruleNotFound)
	_, err = s.PortForwardURL(b.Context(), sb, []int32{80})
	require.ErrorIs(b, err, runtime.ErrNotFound, ruleNotFound)
}

// images returns the Images of the backend. It skips the case if the backend has no Images, or if the
// harness has not named a wanted image.
func (b *bench) images(wanted ...string) runtime.Images {
	i, ok := b.rt.(runtime.Images)
	if !ok {
		b.Skip("the backend is no runtime.Images")
	}
	for _, image := range wanted {
		if image == "" {
			b.Skip("the harness does not name the images of this case: Subject.Images")
		}
	}
	return i
}

func imageIDs(b *bench) {
	images := b.images(b.s.Images.Present, b.s.Images.Absent)
	id, err := images.ImageID(b.Context(), b.s.Images.Present)
	require.NoError(b, err, ruleImageID)
	require.NotEmpty(b, id, ruleImageID)
	none, err := images.ImageID(b.Context(), b.s.Images.Absent)
	require.NoError(b, err, ruleImageID)
	require.Empty(b, none, ruleImageID)
	b.reopen(func() {})
	again, err := b.images().ImageID(b.Context(), b.s.Images.Present)
	require.NoError(b, err, ruleImageID)
	require.Equal(b, id, again, ruleImageID)
}

func pullOfAnAbsentImage(b *bench) {
	images := b.images(b.s.Images.Absent)
	for _, auth := range []*runtime.ImageAuth{nil, {Username: "nobody", Password: "correct-horse"}} {
		_, err := images.PullImage(b.Context(), b.s.Images.Absent, auth)
		require.Error(b, err, rulePull)
		require.NotErrorIs(b, err, runtime.ErrNotFound, ruleNotFound)
		require.NotContains(b, err.Error(), "correct-horse", ruleSecret)
	}
	id, err := images.ImageID(b.Context(), b.s.Images.Absent)
	require.NoError(b, err, ruleImageID)
	require.Empty(b, id, "%s: a pull that failed leaves nothing", ruleImageID)
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	_, err = images.PullImage(ctx, b.s.Images.Absent, nil)
	require.ErrorIs(b, err, context.Canceled, rulePullCtx)
}

func pullOfAnImage(b *bench) {
	images := b.images(b.s.Images.Pullable)
	for range 2 { // with and without the image on the node
		id, err := images.PullImage(b.Context(), b.s.Images.Pullable, b.s.Images.Auth)
		require.NoError(b, err, rulePull)
		require.NotEmpty(b, id, rulePull)
		found, err := images.ImageID(b.Context(), b.s.Images.Pullable)
		require.NoError(b, err, ruleImageID)
		require.Equal(b, id, found, rulePull)
	}
}
