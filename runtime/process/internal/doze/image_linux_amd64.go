// SPDX-License-Identifier: Apache-2.0

package doze

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// code returns the addresses of the program sleeper and of its end. It is never called.
func code() (start, end unsafe.Pointer)

// The image is mapped twice, because a page is either executed or written.
const (
	textAddress = 0x400000
	dataAddress = 0x500000
	textOffset  = 0x100
	dataOffset  = 0x300
	imageSize   = 0x400
)

// maxWake is the number of descriptors that a sleeper can wait for.
const maxWake = 5

// table is the data of a sleeper.
type table struct {
	Fds     [maxWake]unix.PollFd
	Count   uint32
	_       uint32
	Program uint32
	Empty   [4]byte
	Name    [16]byte
	Pause   [4]uint32 // a struct timespec: in 64 bits, the high half of the nanoseconds stays 0
}

// image returns the ELF file of a sleeper, or nil if the linker has put the code in another order.
func image(name string, program int, wake []int) []byte {
	start, end := code()
	size := uintptr(end) - uintptr(start)
	if uintptr(end) <= uintptr(start) || size > dataOffset-textOffset {
		return nil
	}
	t := table{Count: uint32(len(wake)), Program: uint32(program), Pause: [4]uint32{1}}
	for i, fd := range wake {
		t.Fds[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	copy(t.Name[:len(t.Name)-1], name)

	raw := make([]byte, imageSize)
	put(raw, 0, &file{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(wordSize / 4), 1, 1}, Type: 2, Machine: machine, Version: 1,
		Entry: textAddress + textOffset, Phoff: unsafe.Offsetof(file{}.Parts), Flags: flags,
		Ehsize: uint16(unsafe.Offsetof(file{}.Parts)), Phentsize: uint16(unsafe.Sizeof(part{})), Phnum: 3,
		Parts: [3]part{
			load(textAddress, read|execute),
			load(dataAddress, read|write),
			stack(read | write),
		},
	})
	copy(raw[textOffset:], unsafe.Slice((*byte)(start), size))
	put(raw, dataOffset, &t)
	return raw
}

// put writes a value as the processor has it, which is the byte order of the file.
func put[T any](raw []byte, at int, v *T) {
	copy(raw[at:], unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)))
}

// file is the header of an ELF file, with the headers of its parts. Package debug/elf would be 37 KB
// of each program.
type file struct {
	Ident                      [16]byte
	Type, Machine              uint16 // type 2: it has fixed addresses
	Version                    uint32
	Entry, Phoff, Shoff        uintptr
	Flags                      uint32
	Ehsize, Phentsize, Phnum   uint16
	Shentsize, Shnum, Shstrndx uint16
	Parts                      [3]part
}

// The permitted uses of a part.
const (
	execute = 1
	write   = 2
	read    = 4
)

// wordSize is the size of an address in bytes.
const wordSize = unsafe.Sizeof(uintptr(0))

// align is the size of the largest pages.
const align = 0x10000
