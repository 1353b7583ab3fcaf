// SPDX-License-Identifier: Apache-2.0

package imagestore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/moby/sys/user"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// maxUsers bounds the size of an image's list of users or groups, in bytes.
const maxUsers = 1 << 20

// userOf returns the numbers and the home of an image's user: "", a name or a number, each with an
// optional group after a colon. Names are looked up in the image's own lists. Links in the image
// are followed within the image only.
func userOf(rootfs *os.Root, spec string) (*user.ExecUser, error) {
	passwd, err := readUsers(rootfs, "etc/passwd")
	if err != nil {
		return nil, err
	}
	group, err := readUsers(rootfs, "etc/group")
	if err != nil {
		return nil, err
	}
	found, err := user.GetExecUser(spec, &user.ExecUser{Home: "/"}, passwd, group)
	if err != nil {
		return nil, fmt.Errorf("user %q of the image: %w", spec, err)
	}
	return found, nil
}

// readUsers returns a list of users. An image without the list has no users.
func readUsers(rootfs *os.Root, file string) (io.Reader, error) {
	raw, err := atomicfile.Read(rootfs, file, maxUsers)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s of the image: %w", file, err)
	}
	return bytes.NewReader(raw), nil
}
