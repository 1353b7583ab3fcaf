// SPDX-License-Identifier: Apache-2.0

package credentialplugin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/keelson-dev/keelson/internal/registry"
)

// Provider is a plug-in, as in a CredentialProviderConfig of kubelet.config.k8s.io/v1.
type Provider struct {
	// Name is the name of the program in Options.Dir, and of the plug-in in errors.
	Name string
	// APIVersion is the version of requests and answers: credentialprovider.kubelet.k8s.io/v1,
	// v1beta1 or v1alpha1.
	APIVersion string
	// MatchImages are the registries, or parts of registries, of the plug-in, such as
	// *.dkr.ecr.*.amazonaws.com. At least one element is required.
	MatchImages []string
	// DefaultCacheDuration is the lifetime of an answer without a lifetime. With 0 such an answer is
	// not kept.
	DefaultCacheDuration time.Duration
	// Args are the arguments of the program.
	Args []string
	// Env are environment variables as NAME=value, in addition to the caller's.
	Env []string
}

// file is a configuration file. Unknown fields are errors.
type file struct {
	APIVersion string     `yaml:"apiVersion"`
	Kind       string     `yaml:"kind"`
	Providers  []document `yaml:"providers"`
}

type document struct {
	Name                 string         `yaml:"name"`
	APIVersion           string         `yaml:"apiVersion"`
	MatchImages          []string       `yaml:"matchImages"`
	DefaultCacheDuration *string        `yaml:"defaultCacheDuration"`
	Args                 []string       `yaml:"args"`
	Env                  []variable     `yaml:"env"`
	TokenAttributes      map[string]any `yaml:"tokenAttributes"`
}

type variable struct {
	Name  string `yaml:"name"`
	Value string `yaml:"value"`
}

// maxFile is the largest size of a configuration file, in bytes.
const maxFile = 1 << 20

// Read returns the plug-ins of a configuration file, or of the files *.json, *.yaml and *.yml of a
// folder in the order of their names. Errors name the file, and contain no
// values of environment variables.
func Read(path string) ([]Provider, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	paths := []string{path}
	if info.IsDir() {
		entries, err := os.ReadDir(path) // sorted
		if err != nil {
			return nil, err
		}
		paths = nil
		for _, e := range entries {
			if !e.IsDir() && slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(e.Name())) {
				paths = append(paths, filepath.Join(path, e.Name()))
			}
		}
		if len(paths) == 0 {
			return nil, fmt.Errorf("%s: no files *.json, *.yaml or *.yml", path)
		}
	}
	var all []Provider
	for _, path := range paths {
		providers, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, providers...)
	}
	return all, checkProviders(all)
}

func readFile(path string) ([]Provider, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxFile:
		return nil, fmt.Errorf("want at most %d bytes", maxFile)
	}
	return parse(data)
}

// configVersions are the versions of CredentialProviderConfig.
var configVersions = []string{"kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1beta1", "kubelet.config.k8s.io/v1alpha1"}

// parse returns the plug-ins of a file with one YAML or JSON document.
func parse(data []byte) ([]Provider, error) {
	var f file
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&f); err != nil {
		return nil, unquoted(err)
	}
	if decoder.Decode(new(yaml.Node)) != io.EOF {
		return nil, errors.New("want one document")
	}
	if f.Kind != "CredentialProviderConfig" || !slices.Contains(configVersions, f.APIVersion) {
		return nil, fmt.Errorf("want a CredentialProviderConfig of %s", configVersions[0])
	}
	if len(f.Providers) == 0 {
		return nil, errors.New("providers: at least one is required")
	}
	var all []Provider
	for _, d := range f.Providers {
		p, err := d.provider()
		if err != nil {
			return nil, fmt.Errorf("provider %q: %w", d.Name, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// unquoted returns an error without the values that the YAML library quotes between back quotes.
func unquoted(err error) error {
	parts := strings.Split(err.Error(), "`")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "…"
	}
	return errors.New(strings.Join(parts, "`"))
}

func (d document) provider() (Provider, error) {
	p := Provider{Name: d.Name, APIVersion: d.APIVersion, MatchImages: d.MatchImages, Args: d.Args}
	if d.TokenAttributes != nil {
		return p, errors.New("tokenAttributes: this program gives plug-ins no service account tokens: remove them")
	}
	if d.DefaultCacheDuration == nil {
		return p, errors.New("defaultCacheDuration is required")
	}
	var err error
	if p.DefaultCacheDuration, err = time.ParseDuration(*d.DefaultCacheDuration); err != nil {
		return p, errors.New("defaultCacheDuration: want a duration, such as 12h")
	}
	for _, v := range d.Env {
		if v.Name == "" || strings.ContainsAny(v.Name, "=\x00") || strings.Contains(v.Value, "\x00") {
			return p, fmt.Errorf("env: %q is no variable", v.Name)
		}
		p.Env = append(p.Env, v.Name+"="+v.Value)
	}
	return p, nil
}

// responseVersions are the versions of requests and answers.
var responseVersions = []string{
	"credentialprovider.kubelet.k8s.io/v1", "credentialprovider.kubelet.k8s.io/v1beta1", "credentialprovider.kubelet.k8s.io/v1alpha1",
}

// checkProviders returns an error that names the first invalid plug-in.
func checkProviders(all []Provider) error {
	seen := map[string]bool{}
	for _, p := range all {
		if why := p.problem(); why != "" {
			return fmt.Errorf("provider %q: %s", p.Name, why)
		}
		if seen[p.Name] {
			return fmt.Errorf("provider %q is there twice", p.Name)
		}
		seen[p.Name] = true
	}
	return nil
}

// problem returns the reason why p is invalid, empty if it is valid.
func (p Provider) problem() string {
	switch {
	case p.Name == "", p.Name == ".", p.Name == "..", strings.ContainsAny(p.Name, "/\\ \t\r\n\x00"):
		return "name: want the name of a program, without spaces and slashes"
	case !slices.Contains(responseVersions, p.APIVersion):
		return "apiVersion: want " + responseVersions[0]
	case len(p.MatchImages) == 0:
		return "matchImages: at least one is required"
	case p.DefaultCacheDuration < 0:
		return "defaultCacheDuration: want 0 or more"
	}
	for _, m := range p.MatchImages {
		if _, ok := registry.Parse(m); !ok || strings.Contains(m, "://") {
			return fmt.Sprintf("matchImages: %q is no registry", m)
		}
	}
	return ""
}
