// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Limits of a download.
const (
	// stall is how long a connection may bring no byte before it counts as cut.
	stall = time.Minute
	// maxCuts is how often a connection may be cut without gain bytes in between. The error then ends
	// the pull, and the next pull continues the part.
	maxCuts = 3
	gain    = 256 << 10
)

// resumable is an image whose layers continue after a cut.
type resumable struct {
	v1.Image
	from *repository
}

// Layers returns the layers of the manifest.
func (r resumable) Layers() ([]v1.Layer, error) {
	m, err := r.Manifest()
	if err != nil {
		return nil, err
	}
	layers := make([]v1.Layer, len(m.Layers))
	for i, d := range m.Layers {
		if layers[i], err = partial.CompressedToLayer(blob{r.from, d}); err != nil {
			return nil, err
		}
	}
	return layers, nil
}

// repository is the place of the blobs of an image.
type repository struct {
	ctx    context.Context
	client *http.Client
	blobs  string // URL of the blobs, with a slash at the end
	parts  parts
}

// blob is a layer of a repository.
type blob struct {
	from       *repository
	descriptor v1.Descriptor
}

// Digest returns the digest in the manifest.
func (b blob) Digest() (v1.Hash, error) { return b.descriptor.Digest, nil }

// Size returns the size in the manifest.
func (b blob) Size() (int64, error) { return b.descriptor.Size, nil }

// MediaType returns the type in the manifest.
func (b blob) MediaType() (types.MediaType, error) { return b.descriptor.MediaType, nil }

// Compressed fetches the blob. The reader checks the size and the digest at its end.
func (b blob) Compressed() (io.ReadCloser, error) {
	if b.descriptor.Digest.Algorithm != "sha256" {
		return nil, fmt.Errorf("layer %s: its digest is not by sha256", b.descriptor.Digest)
	}
	return &download{blob: b, sum: sha256.New(), part: b.from.parts.open(b.descriptor.Digest.Hex, b.descriptor.Size)}, nil
}

// download reads a blob: first the bytes in the part of an earlier download, then the bytes of the
// registry, which are added to the part.
type download struct {
	blob
	part *part
	sum  hash.Hash
	at   int64 // bytes read so far
	err  error // of every later Read; io.EOF after the check of the digest

	body    io.ReadCloser // of the open connection, nil without a connection
	idle    *time.Timer   // ends a connection that stalls
	cancel  context.CancelCauseFunc
	skip    int64 // bytes of the body before at, of a registry without ranges
	noRange bool  // the registry answered with a wrong range
	cuts    int   // since the last gain
	gained  int64 // value of at at the last cut
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (n int, err error) {
	for n == 0 && len(p) > 0 && d.err == nil {
		switch {
		case d.at == d.descriptor.Size:
			d.err = d.check()
		case d.at < d.part.size:
			if n = d.part.read(p, d.at); n == 0 {
				d.part.drop() // the disk fails: the rest comes from the registry
			}
		case d.body == nil:
			d.err = d.connect()
		default:
			n = d.receive(p)
		}
	}
	d.sum.Write(p[:n])
	d.at += int64(n)
	if n > 0 {
		return n, nil
	}
	return 0, d.err
}

// check compares the digest at the end.
func (d *download) check() error {
	if got := hex.EncodeToString(d.sum.Sum(nil)); got != d.descriptor.Digest.Hex {
		d.part.drop()
		return fmt.Errorf("layer %s: the downloaded content has the digest sha256:%s", d.descriptor.Digest, got)
	}
	return io.EOF
}

// receive reads from the connection. After a cut the result is 0, and the next step connects again.
func (d *download) receive(p []byte) int {
	want := min(int64(len(p)), d.descriptor.Size-d.at)
	if d.skip > 0 {
		want = min(int64(len(p)), d.skip)
	}
	d.idle.Reset(stall)
	n, err := d.body.Read(p[:want])
	d.idle.Stop()
	if err != nil && (d.skip > 0 || d.at+int64(n) < d.descriptor.Size) {
		d.cut(err)
	}
	if d.skip > 0 {
		d.skip -= int64(n)
		return 0
	}
	d.part.write(p[:n], d.at)
	return n
}

// cut ends a connection that broke.
func (d *download) cut(err error) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	d.disconnect()
	if d.at-d.gained >= gain {
		d.cuts = 0
	}
	d.cuts, d.gained = d.cuts+1, d.at
	switch {
	case d.from.ctx.Err() != nil:
		d.err = context.Cause(d.from.ctx)
	case d.cuts > maxCuts:
		d.err = fmt.Errorf("layer %s: cut off after %d of %d bytes: %w", d.descriptor.Digest, d.at, d.descriptor.Size, err)
	}
}

func (d *download) disconnect() {
	if d.body != nil {
		_ = d.body.Close()
	}
	if d.cancel != nil {
		d.idle.Stop()
		d.cancel(nil)
	}
	d.body, d.skip = nil, 0
}

var errStalled = errors.New("the registry sent nothing for a minute")

// connect asks for the bytes from at on.
func (d *download) connect() error {
	ctx, cancel := context.WithCancelCause(d.from.ctx)
	d.cancel = cancel
	d.idle = time.AfterFunc(stall, func() { cancel(errStalled) })
	answer, err := d.request(ctx)
	if err != nil {
		d.idle.Stop()
		defer cancel(nil)
		if d.from.ctx.Err() != nil {
			return context.Cause(d.from.ctx)
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("layer %s: after %d of %d bytes: %w", d.descriptor.Digest, d.at, d.descriptor.Size, err)
	}
	d.idle.Stop()
	d.body = stalling{answer.Body, ctx}
	switch {
	case answer.StatusCode == http.StatusOK:
		d.skip = d.at
	case !d.noRange && continues(answer, d.at):
	default:
		d.noRange = true
		d.cut(fmt.Errorf("the registry answered with status %d and range %.100q", answer.StatusCode, answer.Header.Get("Content-Range")))
		return d.err
	}
	return nil
}

func (d *download) request(ctx context.Context) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.from.blobs+d.descriptor.Digest.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept-Encoding", "identity") // bytes are counted
	if d.at > 0 && !d.noRange {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.at))
	}
	answer, err := d.from.client.Do(request)
	if err != nil {
		return nil, err
	}
	if err := transport.CheckError(answer, http.StatusOK, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable); err != nil {
		return nil, errors.Join(err, answer.Body.Close())
	}
	return answer, nil
}

// continues reports whether an answer has the bytes from at on.
func continues(answer *http.Response, at int64) bool {
	var first, last int64
	_, err := fmt.Sscanf(answer.Header.Get("Content-Range"), "bytes %d-%d/", &first, &last)
	return answer.StatusCode == http.StatusPartialContent && err == nil && at > 0 && first == at && last >= first
}

// stalling is a body whose errors have the cause of the request's end.
type stalling struct {
	io.ReadCloser
	ctx context.Context
}

// Read implements io.Reader.
func (s stalling) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if cause := context.Cause(s.ctx); err != nil && cause != nil {
		err = cause
	}
	return n, err
}

// Close ends the download. The part stays for the next pull only if the network, or the end of the
// pull, was the reason of the end: after a full disk, for example, the part is removed.
func (d *download) Close() error {
	d.disconnect()
	interrupted := d.from.ctx.Err() != nil || d.err != nil && !errors.Is(d.err, io.EOF)
	d.part.close(interrupted)
	return nil
}
