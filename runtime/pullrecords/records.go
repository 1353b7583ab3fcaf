// SPDX-License-Identifier: Apache-2.0

package pullrecords

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/internal/atomicfile"
	"github.com/keelson-dev/keelson/runtime"
)

const (
	pulled  = "pulled"  // records, by image
	pulling = "pulling" // notes of pulls, by name
	maxFile = 1 << 20   // bytes
	maxKept = 100       // Secrets, and credentials, for each repository of an image
)

// Options configures Records.
type Options struct {
	// Dir is the folder of the records. Open creates it. Required.
	Dir string
	// Policy decides about images without a record. Defaults to NeverVerifyPreloadedImages.
	Policy Policy
	// Allowlist has the repositories for NeverVerifyAllowlistedImages, without tags and digests, such as
	// registry.example/team/app or registry.example/team/*. Defaults to none.
	Allowlist []string
}

// Records implements runtime.PullRecords. Its methods are safe for concurrent use.
type Records struct {
	policy  Policy
	allowed list
	dir     *os.Root

	mu    sync.Mutex
	pulls map[string]*pull // in progress, by name
}

// pull is all pulls of a name in progress.
type pull struct {
	number int
	before string // ID of the image with the name before the pulls
	keep   bool   // the note stays after the last pull
}

// record is the file pulled/<hash of the image's ID>.
type record struct {
	Image        string
	Salt         []byte
	Repositories map[string]*pullers
}

// pullers are the Secrets and credentials with which a pod may use an image under the name of a repository.
type pullers struct {
	Everybody bool     `json:",omitempty"`
	Secrets   []string `json:",omitempty"`
	Hashes    []string `json:",omitempty"` // of credentials
}

// note is the file pulling/<hash of the name>.
type note struct{ Name, Before string }

// Check reports an invalid option, other than Dir.
func (o Options) Check() error {
	switch o.Policy {
	case "", NeverVerifyPreloadedImages, AlwaysVerify:
		if len(o.Allowlist) > 0 {
			return fmt.Errorf("an allow list is only for the policy %s", NeverVerifyAllowlistedImages)
		}
	case NeverVerifyAllowlistedImages:
	default:
		return fmt.Errorf("policy %q: want %s, %s or %s", o.Policy, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages, AlwaysVerify)
	}
	return checkList(o.Allowlist)
}

// Open returns the records in a folder. An error names the invalid option, or the folder.
func Open(o Options) (*Records, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("pullrecords: %w", err)
	}
	if o.Dir == "" {
		return nil, errors.New("pullrecords: Options.Dir is required")
	}
	r := &Records{policy: cmp.Or(o.Policy, NeverVerifyPreloadedImages), allowed: o.Allowlist, pulls: make(map[string]*pull)}
	for _, folder := range []string{pulled, pulling} {
		if err := os.MkdirAll(filepath.Join(o.Dir, folder), 0o700); err != nil {
			return nil, fmt.Errorf("pullrecords: %w", err)
		}
	}
	dir, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("pullrecords: %w", err)
	}
	r.dir = dir
	return r, nil
}

// MayUse implements runtime.PullRecords.
func (r *Records) MayUse(image, id string, credentials func() []runtime.ImageAuth) (bool, error) {
	rec, preloaded, err := r.look(image, id)
	p := rec.Repositories[repositoryOf(image)]
	switch {
	case err != nil || preloaded:
		return preloaded, err
	case p == nil:
		return false, nil
	case p.Everybody:
		return true, nil
	}
	return slices.ContainsFunc(credentials(), func(a runtime.ImageAuth) bool {
		return a.Secret != "" && slices.Contains(p.Secrets, a.Secret) || slices.Contains(p.Hashes, rec.hash(a))
	}), nil
}

// look returns the record of an image, or whether the image has none and is for all pods. No pull ends meanwhile: its
// note goes when its record is there.
func (r *Records) look(image, id string) (record, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec, found, err := r.record(id)
	if found || err != nil {
		return rec, false, err
	}
	preloaded, err := r.preloaded(image, id)
	return rec, preloaded, err
}

// preloaded reports whether an image without a record is for all pods.
func (r *Records) preloaded(image, id string) (bool, error) {
	if r.policy == AlwaysVerify || r.policy == NeverVerifyAllowlistedImages && !r.allowed.has(repositoryOf(image)) {
		return false, nil
	}
	n, found, err := load[note](r.dir, pulling, image)
	return err == nil && (!found || n.Before == id && id != ""), err
}

// Begin implements runtime.PullRecords.
func (r *Records) Begin(image, before string) (end func(id string, auth *runtime.ImageAuth, err error) error, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pulls[image]
	if p == nil {
		n, found, err := load[note](r.dir, pulling, image)
		if err != nil {
			return nil, err
		}
		next := note{image, before}
		if found && n.Before != before { // the image of then may come again
			next.Before = ""
		}
		if !found || n != next {
			if err := save(r.dir, pulling, image, next); err != nil {
				return nil, err
			}
		}
		p = &pull{before: next.Before, keep: found}
		r.pulls[image] = p
	}
	p.number++
	return func(id string, auth *runtime.ImageAuth, err error) error { return r.end(p, image, id, auth, err) }, nil
}

func (r *Records) end(p *pull, image, id string, auth *runtime.ImageAuth, failure error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	switch {
	case failure == nil:
		if err = r.add(p, image, id, auth); err == nil {
			p.keep = false
		}
	case errors.Is(failure, context.Canceled) || errors.Is(failure, context.DeadlineExceeded):
		p.keep = true // the runtime may complete the pull
	}
	if p.number--; p.number > 0 {
		return err
	}
	delete(r.pulls, image)
	if err == nil && !p.keep {
		err = atomicfile.Remove(r.dir, path(pulling, image))
	}
	return err
}

// add records a successful pull.
func (r *Records) add(p *pull, image, id string, auth *runtime.ImageAuth) error {
	rec, found, err := r.record(id)
	if err != nil {
		return err
	}
	if !found && id == p.before {
		if is, err := r.preloaded(image, id); is || err != nil {
			return err
		}
	}
	repository := repositoryOf(image)
	of := rec.Repositories[repository]
	if of == nil {
		of = &pullers{}
		rec.Repositories[repository] = of
	}
	if auth == nil || auth.Secret == "" {
		of.Everybody = true
	} else {
		of.Secrets = newest(of.Secrets, auth.Secret)
		of.Hashes = newest(of.Hashes, rec.hash(*auth))
	}
	return save(r.dir, pulled, id, rec)
}

// newest moves an entry to the end of a list, and forgets the oldest entries.
func newest(all []string, entry string) []string {
	all = append(slices.DeleteFunc(all, func(e string) bool { return e == entry }), entry)
	return all[max(0, len(all)-maxKept):]
}

// Prune deletes the records of images that are not present. A record that is newer than since, the time of the list
// of images, stays.
func (r *Records) Prune(since time.Time, present []string) error {
	keep := make(map[string]bool, len(present))
	for _, id := range present {
		keep[filepath.Base(path(pulled, id))] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	files, err := fs.ReadDir(r.dir.FS(), pulled)
	errs := []error{err}
	for _, f := range files {
		if info, err := f.Info(); !keep[f.Name()] && err == nil && info.ModTime().Before(since) {
			errs = append(errs, atomicfile.Remove(r.dir, filepath.Join(pulled, f.Name())))
		}
	}
	return errors.Join(errs...)
}

// record returns the record of an image. A missing or damaged record has no repositories.
func (r *Records) record(id string) (record, bool, error) {
	rec, found, err := load[record](r.dir, pulled, id)
	if rec.Image != id || rec.Repositories == nil || len(rec.Salt) == 0 {
		rec.Image, rec.Salt, rec.Repositories = id, []byte(rand.Text()), make(map[string]*pullers)
	}
	return rec, found, err
}

// hash returns the salted hash of credentials.
func (rec *record) hash(auth runtime.ImageAuth) string {
	auth.Secret = ""
	raw, _ := json.Marshal(auth) // strings only
	mac := hmac.New(sha256.New, rec.Salt)
	_, _ = mac.Write(raw)
	return hex.EncodeToString(mac.Sum(nil))
}

// path returns the path of the file for an image's ID or name.
func path(folder, of string) string {
	sum := sha256.Sum256([]byte(of))
	return filepath.Join(folder, hex.EncodeToString(sum[:])+".json")
}

// load reads a file. The result of a damaged file is empty.
func load[T any](dir *os.Root, folder, of string) (content T, found bool, err error) {
	raw, err := atomicfile.Read(dir, path(folder, of), maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return content, false, nil
	case err != nil:
		return content, false, fmt.Errorf("the record of pulls of %s: %w", of, err)
	}
	if json.Unmarshal(raw, &content) != nil {
		content = *new(T)
	}
	return content, true, nil
}

func save(dir *os.Root, folder, of string, content any) error {
	raw, err := json.Marshal(content)
	if err == nil {
		err = atomicfile.Write(dir, path(folder, of), raw)
	}
	if err != nil {
		return fmt.Errorf("the record of pulls of %s: %w", of, err)
	}
	return nil
}
