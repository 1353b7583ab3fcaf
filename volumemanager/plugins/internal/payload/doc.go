// SPDX-License-Identifier: Apache-2.0

// Package payload writes the files of a configMap, secret, downwardAPI or projected volume. Readers
// see all files of the old version or all files of the new version. After a crash at any step, the
// next Write repairs the volume.
//
// The content of a volume's folder, in the layout of the kubelet that programs in containers rely
// on:
//
//	..2026_11_21_02_09_18.1804289383/   a version, never changed after its commit
//	..data -> ..2026_11_21_02_09_18.…   the current version; renaming this link is the commit
//	..data_tmp                          the link before it is renamed
//	key -> ..data/key                   for each first path element; containers read these links
//
// The steps of Write, and the repair by the next Write after a crash in each step:
//
//	1  make the version's folder, 0700     not referenced by ..data: removed
//	2  write, chmod, chown, sync the files the same
//	3  link ..data_tmp                     removed before it is made again (upstream fails with EEXIST for ever)
//	   (the first version is linked as ..data at once: there is nothing to replace)
//	4  rename to ..data                    committed; links are added and removed, old versions removed
//	5  add links for new keys              the same
//	6  remove links of removed keys        the same
//	7  remove old versions                 the same
package payload
