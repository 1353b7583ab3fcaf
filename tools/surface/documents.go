// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	codeBlock  = regexp.MustCompile("(?ms)^```go\n(.*?)^```")
	qualified  = regexp.MustCompile(`\b([a-z][a-z0-9]*)\.([A-Z]\w*)`)
	keyedField = regexp.MustCompile(`\b([A-Z]\w*):`)
	word       = regexp.MustCompile(`[A-Za-z_]\w*`)
)

// codeOfDocuments returns the Go code in README.md and docs.
func codeOfDocuments(root string) (string, error) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return "", err
	}
	var code strings.Builder
	for _, file := range append(files, filepath.Join(root, "README.md")) {
		data, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("surface: %w", err)
		}
		for _, block := range codeBlock.FindAllStringSubmatch(string(data), -1) {
			code.WriteString(block[1])
		}
	}
	return code.String(), nil
}

// readDocuments notes the names used by the code of documents. The code is read as
// text: pkg.Name is a use, and Name: sets the field Name in each options struct of
// the packages that the code uses.
func (m *measurement) readDocuments(code string) {
	uses, fields, words := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, match := range qualified.FindAllStringSubmatch(code, -1) {
		uses[match[1]+"."+match[2]] = true
	}
	for _, match := range keyedField.FindAllStringSubmatch(code, -1) {
		fields[match[1]] = true
	}
	for _, w := range word.FindAllString(code, -1) {
		words[w] = true
	}
	for _, n := range m.names {
		owner, member, isMember := strings.Cut(n.id, ".")
		switch base := path.Base(n.pkg); {
		case !isMember && uses[base+"."+n.id]:
			n.used = product
		case isMember && n.field && uses[base+"."+owner] && fields[member]:
			n.used, n.set = product, product
		case isMember && !n.field && uses[base+".New"] && words[member]:
			n.used = product
		}
	}
}
