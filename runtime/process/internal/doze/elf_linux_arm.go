// SPDX-License-Identifier: Apache-2.0

package doze

// part is the header of a part of an ELF file with addresses of 32 bits.
type part struct {
	Type, Offset, Vaddr, Paddr, Filesz, Memsz, Flags, Align uint32
}

// load is a part that is mapped, which is the whole file.
func load(address, flags uint32) part {
	return part{Type: 1, Flags: flags, Vaddr: address, Filesz: imageSize, Memsz: imageSize, Align: align}
}

// stack is the part that stands for the stack.
func stack(flags uint32) part { return part{Type: 0x6474e551, Flags: flags} }

const (
	machine = 40
	flags   = 0x05000000 // the fifth version of the ABI
)
