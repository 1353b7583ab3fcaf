// SPDX-License-Identifier: Apache-2.0

package doze

const machine = 62
