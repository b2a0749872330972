import postgres from 'postgres'

/**
 * Gives each service its own database and a role that owns it, so that neither can read the other's. Safe to repeat.
 *
 * passwords: by name of database and role; only plain characters (hexadecimal).
 */
export async function createDatabases(adminUrl: string, passwords: Record<string, string>): Promise<void> {
  const sql = postgres(adminUrl, { max: 1, onnotice: () => {} })
  try {
    const roles = await sql<{ name: string }[]>`select rolname as name from pg_roles`
    const databases = await sql<{ name: string }[]>`select datname as name from pg_database`
    for (const [name, password] of Object.entries(passwords)) {
      const verb = roles.some((role) => role.name === name) ? 'alter' : 'create'
      await sql.unsafe(`${verb} role "${name}" login password '${password}'`)
      if (databases.some((database) => database.name === name)) continue
      await sql.unsafe(`create database "${name}" owner "${name}"`)
      await sql.unsafe(`revoke connect on database "${name}" from public`)
    }
  } finally {
    await sql.end({ timeout: 5 })
  }
}
