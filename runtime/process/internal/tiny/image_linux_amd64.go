// SPDX-License-Identifier: Apache-2.0

package tiny

import (
	"bytes"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// code returns the addresses of the instructions and of their end. It is never called by them.
func code() (start, end unsafe.Pointer)

// The image is mapped twice, because a page is either executed or written.
const (
	textAddress = 0x400000
	dataAddress = 0x500000
	textOffset  = 0x100
	dataOffset  = 0x300
)

// The addresses that a program has: of its arguments, of its environment, of a Failed, and of its
// first step. An argument of a call can be a Load of the first two.
const (
	Arguments   = dataAddress + dataOffset
	Environment = Arguments + 8
	Failure     = Arguments + 16
	FirstStep   = Arguments + 32
)

// Image returns the ELF file of a program that gets two arguments. Its steps never end.
func Image(p *Program) ([]byte, error) {
	start, end := code()
	size := uintptr(end) - uintptr(start)
	if uintptr(end) <= uintptr(start) || size > dataOffset-textOffset {
		return nil, errors.ErrUnsupported // the linker has put the instructions in another order
	}
	steps, memory := make([]Step, p.Len()), make([]byte, p.Size())
	memoryAt := FirstStep + uintptr(len(steps))*StepSize
	p.Assemble(steps, FirstStep, memory, memoryAt)
	length := uint64(memoryAt-dataAddress) + uint64(len(memory))
	var out bytes.Buffer
	put(&out, 0, &file{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: 2, Machine: machine, Version: 1,
		Entry: textAddress + textOffset, Phoff: uint64(unsafe.Offsetof(file{}.Parts)),
		Ehsize: uint16(unsafe.Offsetof(file{}.Parts)), Phentsize: uint16(unsafe.Sizeof(part{})), Phnum: 3,
		Parts: [3]part{
			{Type: 1, Flags: read | execute, Vaddr: textAddress, Filesz: length, Memsz: length, Align: align},
			{Type: 1, Flags: read | write, Vaddr: dataAddress, Filesz: length, Memsz: length, Align: align},
			{Type: 0x6474e551, Flags: read | write}, // the stack
		},
	})
	pad(&out, textOffset)
	out.Write(unsafe.Slice((*byte)(start), size))
	pad(&out, int(FirstStep-dataAddress))
	out.Write(Raw(steps))
	out.Write(memory)
	return out.Bytes(), nil
}

// InImage returns the address of a label in the image of a program.
func InImage(p *Program, l Label) uintptr { return p.address(l, FirstStep) }

// Raw returns steps as they are in memory.
func Raw(steps []Step) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(steps))), len(steps)*int(StepSize))
}

// put writes a value as the processor has it, which is the byte order of the file.
func put[T any](out *bytes.Buffer, at int, v *T) {
	pad(out, at)
	out.Write(unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)))
}

// pad writes zeroes up to an offset.
func pad(out *bytes.Buffer, to int) { out.Write(make([]byte, to-out.Len())) }

// file is the header of an ELF file, with the headers of its parts. Package debug/elf would be 37 KB
// of each program.
type file struct {
	Ident                      [16]byte
	Type, Machine              uint16 // type 2: it has fixed addresses
	Version                    uint32
	Entry, Phoff, Shoff        uint64
	Flags                      uint32
	Ehsize, Phentsize, Phnum   uint16
	Shentsize, Shnum, Shstrndx uint16
	Parts                      [3]part
}

// part is the header of a part of an ELF file.
type part struct {
	Type, Flags                                uint32
	Offset, Vaddr, Paddr, Filesz, Memsz, Align uint64
}

// The permitted uses of a part.
const (
	execute = 1
	write   = 2
	read    = 4
)

// align is the size of the largest pages.
const align = 0x10000

// File returns memory that holds the image and can be executed. The name is shown in /proc.
func File(name string, image []byte) (fd int, err error) {
	// Linux 6.3 has the flag, and may demand it.
	fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	}
	if err != nil {
		return -1, err
	}
	if _, err := unix.Write(fd, image); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("write the program: %w", err)
	}
	return fd, nil
}
