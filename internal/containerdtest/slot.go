// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	// slotsDir is root's, and empty after a boot, as is all that a slot stands
	// for: processes, mounts, a bridge.
	slotsDir = "/run/keelson-containerdtest"
	// maxSlots is how many subnets 10.88.0.0/16 has.
	maxSlots = 256
)

// slot is the right to one bridge and subnet, for as long as the file is locked;
// the kernel unlocks it when the process dies. The file says which folder
// belongs to it.
type slot struct {
	number int
	file   *os.File
}

func slotFile(dir string, number int) string { return filepath.Join(dir, strconv.Itoa(number)) }

// lockSlot takes slot number below dir. It returns nil and no error if another
// process, or another instance of this one, has it.
func lockSlot(dir string, number int) (*slot, error) {
	f, err := os.OpenFile(slotFile(dir, number), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, f.Close()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	return &slot{number, f}, nil
}

// takeSlot cleans up what dead processes left in any slot below dir, and takes
// the first free one. A slot that cannot be cleaned up is left to others.
func takeSlot(dir string) (*slot, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var taken *slot
	var errs []error
	for number := range maxSlots {
		if _, err := os.Stat(slotFile(dir, number)); taken != nil && err != nil {
			continue // never used
		}
		s, err := lockSlot(dir, number)
		if err == nil && s == nil {
			continue // in use
		}
		if err == nil {
			err = s.cleanUp()
		}
		if err == nil && taken == nil {
			taken = s
			continue
		}
		if s != nil {
			err = errors.Join(err, s.release())
		}
		errs = append(errs, err)
	}
	if taken == nil {
		return nil, errors.Join(append(errs, fmt.Errorf("all %d slots in %s are taken", maxSlots, dir))...)
	}
	return taken, nil
}

// own says that folder belongs to the slot.
func (s *slot) own(folder string) error {
	_, err := s.file.WriteAt([]byte(folder+"\n"), 0)
	return err
}

// cleanUp ends and removes all that belongs to the slot. After it the slot owns
// nothing.
func (s *slot) cleanUp() error {
	text, err := os.ReadFile(s.file.Name())
	if err != nil {
		return err
	}
	folder := strings.TrimSpace(string(text))
	if folder == "" {
		return nil
	}
	if !filepath.IsAbs(folder) || !strings.HasPrefix(filepath.Base(folder), folderPrefix) {
		return fmt.Errorf("%s names %q, which is no folder of ours", s.file.Name(), folder)
	}
	if err := removeInstance(newLayout(folder, s.number)); err != nil {
		return err
	}
	return s.file.Truncate(0)
}

// release gives the slot to others.
func (s *slot) release() error { return s.file.Close() }
