// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"io"
	"os"
)

const (
	// nothing is what probe finds on a device that may be formatted.
	nothing = ""
	// unknown is what it finds on one that holds something.
	unknown = "unknown data"

	// The beginning holds the superblock of every file system in use, the tables of partitions and the headers of
	// encryption and volume management; the end the copies of some, and old RAID superblocks.
	probedHead = 1 << 20
	probedTail = 256 << 10
)

// magics are where file systems say their names.
var magics = []struct {
	fs    string
	at    int
	magic string
}{
	{"ext4", 0x438, "\x53\xef"}, // also ext2 and ext3
	{"xfs", 0, "XFSB"},
	{"btrfs", 0x10040, "_BHRfS_M"},
}

// probe returns the file system on a device, nothing or unknown. It only reads.
func probe(device string) (string, error) {
	f, err := os.Open(device)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	head := make([]byte, min(size, probedHead))
	if _, err := f.ReadAt(head, 0); err != nil {
		return "", err
	}
	for _, m := range magics {
		if end := m.at + len(m.magic); end <= len(head) && string(head[m.at:end]) == m.magic {
			return m.fs, nil
		}
	}
	tail := make([]byte, min(size, probedTail))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil {
		return "", err
	}
	zeros := make([]byte, probedHead)
	if !bytes.Equal(head, zeros[:len(head)]) || !bytes.Equal(tail, zeros[:len(tail)]) {
		return unknown, nil
	}
	return nothing, nil
}
