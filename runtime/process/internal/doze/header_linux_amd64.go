// SPDX-License-Identifier: Apache-2.0

package doze

// part is the header of a part of an ELF file with addresses of 64 bits.
type part struct {
	Type, Flags                                uint32
	Offset, Vaddr, Paddr, Filesz, Memsz, Align uint64
}

// load is a part that is mapped, which is the whole file.
func load(address uint64, flags uint32) part {
	return part{Type: 1, Flags: flags, Vaddr: address, Filesz: imageSize, Memsz: imageSize, Align: align}
}

// stack is the part that stands for the stack.
func stack(flags uint32) part { return part{Type: 0x6474e551, Flags: flags} }

const flags = 0
