// SPDX-License-Identifier: Apache-2.0

package process

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

// An ID and a folder's name hold the same facts. No index is needed, and a broken record does not
// hide which container the record belongs to:
//
//	sandbox    <uid>:<attempt>-<salt>                          <uid>/sandbox-<attempt>-<salt>
//	container  <uid>:<attempt>-<salt>:<name>-<restart>-<salt>  <uid>/sandbox-<attempt>-<salt>/<name>-<restart>-<salt>
//
// A salt is eight random hex digits. With the salt an ID is not reused for a later pod with the
// same UID.

const sandboxPrefix = "sandbox-"

// sandboxKey names one sandbox.
type sandboxKey struct {
	uid     types.UID
	attempt uint32
	salt    string
}

func (k sandboxKey) tail() string { return fmt.Sprintf("%d-%s", k.attempt, k.salt) }

func (k sandboxKey) id() runtime.SandboxID {
	return runtime.SandboxID(string(k.uid) + ":" + k.tail())
}

// dir is relative to Options.Root.
func (k sandboxKey) dir() string { return filepath.Join(string(k.uid), sandboxPrefix+k.tail()) }

// containerKey names one container instance.
type containerKey struct {
	sandbox sandboxKey
	name    string
	restart int32
	salt    string
}

func (k containerKey) base() string { return fmt.Sprintf("%s-%d-%s", k.name, k.restart, k.salt) }

func (k containerKey) id() runtime.ContainerID {
	return runtime.ContainerID{Runtime: name, ID: string(k.sandbox.id()) + ":" + k.base()}
}

// dir is relative to Options.Root.
func (k containerKey) dir() string { return filepath.Join(k.sandbox.dir(), k.base()) }

// parseSandboxID is the inverse of sandboxKey.id.
func parseSandboxID(id runtime.SandboxID) (sandboxKey, bool) {
	uid, tail, ok := strings.Cut(string(id), ":")
	if !ok {
		return sandboxKey{}, false
	}
	return parseSandboxDir(types.UID(uid), sandboxPrefix+tail)
}

// parseSandboxDir reads the name of a sandbox's folder.
func parseSandboxDir(uid types.UID, base string) (sandboxKey, bool) {
	tail, ok := strings.CutPrefix(base, sandboxPrefix)
	if !ok || checkName(string(uid)) != nil {
		return sandboxKey{}, false
	}
	number, salt, ok := strings.Cut(tail, "-")
	attempt, err := strconv.ParseUint(number, 10, 32)
	k := sandboxKey{uid: uid, attempt: uint32(attempt), salt: salt}
	return k, ok && err == nil && isSalt(salt) && sandboxPrefix+k.tail() == base
}

// parseContainerID is the inverse of containerKey.id.
func parseContainerID(id runtime.ContainerID) (containerKey, bool) {
	colon := strings.LastIndexByte(id.ID, ':')
	if id.Runtime != name || colon < 0 {
		return containerKey{}, false
	}
	sandbox, ok := parseSandboxID(runtime.SandboxID(id.ID[:colon]))
	if !ok {
		return containerKey{}, false
	}
	return parseContainerDir(sandbox, id.ID[colon+1:])
}

// parseContainerDir reads the name of a container's folder.
func parseContainerDir(sandbox sandboxKey, base string) (containerKey, bool) {
	rest, salt, ok1 := cutLast(base, '-')
	name, number, ok2 := cutLast(rest, '-')
	restart, err := strconv.ParseInt(number, 10, 32)
	k := containerKey{sandbox: sandbox, name: name, restart: int32(restart), salt: salt}
	return k, ok1 && ok2 && err == nil && restart >= 0 && checkName(name) == nil && isSalt(salt) && k.base() == base
}

func cutLast(s string, sep byte) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// checkName returns an error if a pod's UID or a container's name cannot be a folder's name and a
// part of an ID.
func checkName(s string) error {
	const maxName = 200 // leaves room for the numbers: a file name has at most 255
	switch {
	case s == "":
		return fmt.Errorf("is empty")
	case len(s) > maxName:
		return fmt.Errorf("has %d bytes, more than %d", len(s), maxName)
	case s[0] == '.':
		return fmt.Errorf("%q begins with a dot", s)
	}
	for _, c := range []byte(s) {
		if c != '-' && c != '.' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return fmt.Errorf("%q holds %q; letters, digits, '-', '.' and '_' may be used", s, c)
		}
	}
	return nil
}

const saltBytes = 4

func newSalt() string {
	var b [saltBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func isSalt(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 2*saltBytes && s == strings.ToLower(s)
}
