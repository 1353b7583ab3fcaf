// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
)

func servingTemplate() Template {
	return Template{CommonName: "system:node:n", Organization: "system:nodes", DNSNames: []string{"a.local", "n"}, IPs: []string{"10.0.0.1", "fd00::1"}}
}

// A stored request is used again only if it asks for exactly the wanted certificate.
func TestRequestAsksFor(t *testing.T) {
	r, err := newRequest(servingTemplate())
	require.NoError(t, err)
	assert.True(t, r.asksFor(servingTemplate()))
	for name, change := range map[string]func(*Template){
		"common name":     func(w *Template) { w.CommonName = "system:node:m" },
		"organization":    func(w *Template) { w.Organization = "o" },
		"fewer names":     func(w *Template) { w.DNSNames = w.DNSNames[:1] },
		"another name":    func(w *Template) { w.DNSNames = []string{"a.local", "m"} },
		"fewer addresses": func(w *Template) { w.IPs = w.IPs[:1] },
		"another address": func(w *Template) { w.IPs = []string{"10.0.0.1", "fd00::2"} },
	} {
		want := servingTemplate()
		change(&want)
		assert.False(t, r.asksFor(want), name)
	}
	for name, damaged := range map[string]request{
		"no request":       {nil, r.key},
		"no key":           {r.csr, nil},
		"a broken request": {bytes.Replace(r.csr, []byte("\nMI"), []byte("\nXX"), 1), r.key},
		"a broken key":     {r.csr, bytes.Replace(r.key, []byte("\nMI"), []byte("\nXX"), 1)},
	} {
		assert.False(t, damaged.asksFor(servingTemplate()), name)
	}
	for name, data := range map[string][]byte{
		"nothing":            nil,
		"two keys":           append(bytes.Clone(r.key), r.key...),
		"two requests":       append(bytes.Clone(r.csr), r.csr...),
		"a request, no key":  r.csr,
		"in the wrong order": append(bytes.Clone(r.key), r.csr...),
	} {
		_, err := decodeRequest(data)
		assert.ErrorIs(t, err, errNoRequest, name)
	}
}

// The objects are those that the controllers of the signers approve and sign.
func TestRequestObject(t *testing.T) {
	r, err := newRequest(servingTemplate())
	require.NoError(t, err)
	for signer, usage := range map[string]certificatesv1.KeyUsage{
		certificatesv1.KubeAPIServerClientKubeletSignerName: certificatesv1.UsageClientAuth,
		certificatesv1.KubeletServingSignerName:             certificatesv1.UsageServerAuth,
	} {
		object := r.object(signer)
		assert.Equal(t, signer, object.Spec.SignerName)
		assert.Equal(t, []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, usage}, object.Spec.Usages)
		assert.Equal(t, r.csr, object.Spec.Request)
		assert.Regexp(t, "^csr-[0-9a-f]{20}$", object.Name)
		assert.Equal(t, object.Name, r.object(signer).Name)
	}
}

// An issued certificate without a wanted name or address is refused.
func TestIssuedCertificatesAreChecked(t *testing.T) {
	s := newSigner(t)
	less := servingTemplate()
	less.IPs = less.IPs[:1]
	i := s.issue(t, less)
	_, err := (request{key: i.key}).pair(i.chain, less, time.Now())
	require.NoError(t, err)
	_, err = (request{key: i.key}).pair(i.chain, servingTemplate(), time.Now())
	require.ErrorContains(t, err, `address "fd00::1"`)
	less.DNSNames = less.DNSNames[:1]
	i = s.issue(t, less)
	_, err = (request{key: i.key}).pair(i.chain, servingTemplate(), time.Now())
	require.ErrorContains(t, err, `name "n"`)
}
