// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// packAll packs each folder <name>_<os>_<arch> below dir, which holds one
// program and the files that go with it. The checksums are of all packages in dir.
func packAll(dir, version string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	var written []string
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		name, platform, _ := strings.Cut(e.Name(), "_")
		base := name + "_" + version + "_" + platform
		files, err := packOne(filepath.Join(dir, e.Name()), filepath.Join(dir, base), base)
		if err != nil {
			return fmt.Errorf("release: pack %s: %w", e.Name(), err)
		}
		written = append(written, files...)
	}
	if len(written) == 0 {
		return fmt.Errorf("release: nothing to pack in %s: build the programs first", dir)
	}
	for _, kind := range []string{"*.deb", "*.rpm"} {
		made, err := filepath.Glob(filepath.Join(dir, kind))
		if err != nil {
			return fmt.Errorf("release: %w", err)
		}
		written = append(written, made...)
	}
	return writeSums(filepath.Join(dir, "SHA256SUMS"), written)
}

// packOne writes the archive and the SBOM of folder to out with their endings,
// and returns their paths. In the archive all files are below top.
func packOne(folder, out, top string) (files []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	sbom := ""
	for _, e := range entries {
		info, err := buildinfo.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			continue // not a Go program
		}
		sbom = out + ".cdx.json"
		if err := writeFile(sbom, func(w io.Writer) error { return writeSBOM(w, e.Name(), info) }); err != nil {
			return nil, err
		}
	}
	if sbom == "" {
		return nil, errors.New("no Go program in the folder")
	}
	archive := out + ".tar.gz"
	return []string{archive, sbom}, writeFile(archive, func(w io.Writer) error { return writeArchive(w, folder, top, entries) })
}

// writeArchive writes the files of folder, in the order of entries, as a tar.gz
// without owners and times.
func writeArchive(w io.Writer, folder, top string, entries []os.DirEntry) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		header := &tar.Header{Name: top + "/" + e.Name(), Mode: mode, Size: info.Size(), Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if err := copyFile(archive, filepath.Join(folder, e.Name())); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zipped.Close())
}

// writeSums writes the checksums of files in the format of sha256sum, to path in
// the same folder.
func writeSums(path string, files []string) error {
	slices.Sort(files)
	return writeFile(path, func(w io.Writer) error {
		for _, f := range files {
			sum := sha256.New()
			if err := copyFile(sum, f); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "%x  %s\n", sum.Sum(nil), filepath.Base(f)); err != nil {
				return err
			}
		}
		return nil
	})
}

// copyFile copies the content of the file at path to w.
func copyFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// writeFile creates the file at path. The function write writes the content.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
