// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"io"
	"os"
)

const (
	// nothing is the result of probe for a device that may be formatted.
	nothing = ""
	// unknown is the result of probe for a device with other content.
	unknown = "unknown data"

	// The first bytes contain the superblock of every file system in use, partition tables, and the
	// headers of encryption and volume management. The last bytes contain copies of some of these
	// headers, and old RAID superblocks.
	probedHead = 1 << 20
	probedTail = 256 << 10
)

// magics are the signatures of file systems and their offsets.
var magics = []struct {
	fs    string
	at    int
	magic string
}{
	{"ext4", 0x438, "\x53\xef"}, // also ext2 and ext3
	{"xfs", 0, "XFSB"},
	{"btrfs", 0x10040, "_BHRfS_M"},
}

// probe returns the file system on a device, nothing or unknown. probe only reads.
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
