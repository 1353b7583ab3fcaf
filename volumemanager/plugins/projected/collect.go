// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/content"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/downward"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/payload"
)

// defaultTokenSeconds is the API's default lifetime of a token.
const defaultTokenSeconds = 3600

// privateMode is the mode of a token for a pod with an fsGroup or a single user.
const privateMode = 0o600

// collector queries the sources of a volume.
type collector struct {
	*Plugin
	mount    volumemanager.Mount
	files    payload.Payload
	defaults content.Defaults
}

// collect queries all sources and returns their files. The error joins the errors of all sources.
func (p *Plugin) collect(ctx context.Context, m volumemanager.Mount) (payload.Payload, error) {
	want := m.Spec.Volume.Projected
	c := collector{p, m, payload.Payload{}, content.Defaults{Mode: want.DefaultMode, User: want.DefaultUser}}
	var failed []error
	for i := range want.Sources {
		if err := c.source(ctx, &want.Sources[i]); err != nil {
			failed = append(failed, fmt.Errorf("sources[%d]: %w", i, err))
		}
	}
	return c.files, errors.Join(failed...)
}

func (c *collector) source(ctx context.Context, s *v1.VolumeProjection) error {
	switch {
	case s.ConfigMap != nil:
		return c.configMap(ctx, s.ConfigMap)
	case s.Secret != nil:
		return c.secret(ctx, s.Secret)
	case s.DownwardAPI != nil:
		return downward.Files(c.files, c.mount.Pod, s.DownwardAPI.Items, c.options.Allocatable(), c.defaults.File)
	case s.ServiceAccountToken != nil:
		return c.token(ctx, s.ServiceAccountToken)
	case s.ClusterTrustBundle != nil:
		return c.bundle(ctx, s.ClusterTrustBundle)
	case s.PodCertificate != nil:
		return c.certificate(ctx, s.PodCertificate)
	}
	return volumemanager.Terminal(errors.New("names no source that is known"))
}

// missing returns the error for a source that Options do not set.
func missing(what string) error {
	return volumemanager.Terminal(fmt.Errorf("this agent has no source of %s", what))
}

func (c *collector) configMap(ctx context.Context, want *v1.ConfigMapProjection) error {
	if c.options.ConfigMaps == nil {
		return missing("configMaps")
	}
	ns := c.mount.Pod.Namespace
	object, err := c.options.ConfigMaps.ConfigMap(ctx, ns, want.Name)
	object, err = content.Fetched(object, err, "configMap", ns, want.Name, want.Optional)
	if err != nil || object == nil {
		return err
	}
	return content.ConfigMap(c.files, object, want.Items, c.defaults, want.Optional)
}

func (c *collector) secret(ctx context.Context, want *v1.SecretProjection) error {
	if c.options.Secrets == nil {
		return missing("secrets")
	}
	ns := c.mount.Pod.Namespace
	object, err := c.options.Secrets.Secret(ctx, ns, want.Name)
	object, err = content.Fetched(object, err, "secret", ns, want.Name, want.Optional)
	if err != nil || object == nil {
		return err
	}
	return content.Secret(c.files, object, want.Items, c.defaults, want.Optional)
}

func (c *collector) token(ctx context.Context, want *v1.ServiceAccountTokenProjection) error {
	if c.options.Tokens == nil {
		return missing("service account tokens")
	}
	pod := c.mount.Pod
	r := TokenRequest{
		Namespace: pod.Namespace, ServiceAccount: cmp.Or(pod.Spec.ServiceAccountName, "default"),
		Pod: pod.Name, PodUID: pod.UID, Audience: want.Audience, ExpirationSeconds: defaultTokenSeconds,
	}
	if want.ExpirationSeconds != nil {
		r.ExpirationSeconds = *want.ExpirationSeconds
	}
	t, err := c.options.Tokens.Token(ctx, r)
	if err != nil {
		return volumemanager.Transient(fmt.Errorf("token of service account %s/%s: %w", r.Namespace, r.ServiceAccount, err))
	}
	return c.addPrivate(want.Path, []byte(t.Value), want.User)
}

func (c *collector) bundle(ctx context.Context, want *v1.ClusterTrustBundleProjection) error {
	if c.options.TrustBundles == nil {
		return missing("trust bundles")
	}
	pem, err := c.options.TrustBundles.Bundle(ctx, want)
	if apierrors.IsNotFound(err) && want.Optional != nil && *want.Optional {
		pem, err = nil, nil
	}
	if err != nil {
		return volumemanager.Transient(fmt.Errorf("trust bundle for path %s: %w", payload.Shown(want.Path), err))
	}
	return c.addPrivate(want.Path, pem, want.User)
}

func (c *collector) certificate(ctx context.Context, want *v1.PodCertificateProjection) error {
	if c.options.Certificates == nil {
		return missing("pod certificates")
	}
	cert, err := c.options.Certificates.Certificate(ctx, c.mount.Pod, want)
	if err != nil {
		return volumemanager.Transient(fmt.Errorf("certificate of signer %q: %w", want.SignerName, err))
	}
	for _, f := range []struct {
		path string
		data []byte
	}{
		{want.CredentialBundlePath, bytes.Join([][]byte{cert.Key, cert.Chain}, nil)},
		{want.KeyPath, cert.Key},
		{want.CertificateChainPath, cert.Chain},
	} {
		if f.path == "" {
			continue
		}
		if err := c.addPrivate(f.path, f.data, want.User); err != nil {
			return err
		}
	}
	return nil
}

// addPrivate adds a file with a secret for the pod.
func (c *collector) addPrivate(path string, data []byte, user *int64) error {
	f := c.defaults.File(data, nil, cmp.Or(user, c.mount.FSUser))
	if c.mount.FSUser != nil || c.mount.FSGroup != nil {
		f.Mode = privateMode
	}
	return volumemanager.Terminal(c.files.Add(path, f))
}
