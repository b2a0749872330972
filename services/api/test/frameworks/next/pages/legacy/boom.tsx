export const getServerSideProps = (): never => {
  throw new Error('a page of the Pages Router that throws')
}

export default function Boom() {
  return null
}
